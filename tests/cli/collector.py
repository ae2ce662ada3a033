#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""collector.py PORT FOLDER [ADDRESS] - a collector of OTLP for tests.

It takes what the protocol permits. FOLDER/code has the status of HTTP that it answers with; 0: no
answer. FOLDER/otlp gets a line of JSON for each record.
"""
import http.server
import json
import sys
import time

port, folder = int(sys.argv[1]), sys.argv[2]


def value(v):
    assert isinstance(v, dict) and set(v) == {'stringValue'} and isinstance(v['stringValue'], str)


def check(body):
    for resource in body['resourceLogs']:
        for a in resource['resource']['attributes']:
            value(a['value'])
        for scope in resource['scopeLogs']:
            assert scope['scope']['name'] == 'trapline'
            for record in scope['logRecords']:
                check_record(record)


def check_record(record):
    assert int(record['timeUnixNano']) > 1.7e18 and record['severityNumber'] in (9, 17)
    value(record['body'])
    for a in record['attributes']:
        assert a['key']
        value(a['value'])
    names = {a['key']: a['value']['stringValue'] for a in record['attributes']}
    with open(folder + '/otlp', 'a') as f:
        f.write(json.dumps(names) + '\n')


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        code = open(folder + '/code').read().strip()
        if code == '0':
            time.sleep(1000)
        if code == '200':
            check(json.loads(body))
        self.send_response(int(code))
        self.send_header('Content-Type', 'application/json')
        self.end_headers()
        self.wfile.write(b'{"partialSuccess":{}}')

    def log_message(self, *args):
        pass


address = sys.argv[3] if len(sys.argv) > 3 else '127.0.0.1'
http.server.ThreadingHTTPServer((address, port), Handler).serve_forever()
