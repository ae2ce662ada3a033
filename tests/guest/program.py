# SPDX-License-Identifier: MIT
"""program.py - a program in Python that behaves as guest.h says: threads, exceptions, signals, children."""
import mmap
import os
import signal
import struct
import subprocess
import sys
import threading
import time

with open(sys.argv[2], 'r+b') as file:
    page = mmap.mmap(file.fileno(), 4096)


def put(offset, value):
    struct.pack_into('<I', page, offset, value)


def get(offset):
    return struct.unpack_from('<I', page, offset)[0]


ticks = 0


def on_tick(number, frame):
    global ticks
    ticks += 1


def work():
    total = 0
    for i in range(300):
        try:
            total += len(('x' * (i % 50)).encode())
            if i % 100 == 50:
                raise ValueError(i)
        except ValueError:
            total += 1
    return total


def must(what, text):
    if not what:
        page[24:24 + len(text)] = text.encode()
        print(text, flush=True)
        os._exit(1)


signal.signal(signal.SIGUSR1, on_tick)
put(12, os.getpid())
while True:
    results = []
    threads = [threading.Thread(target=lambda: results.append(work())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    must(results == [results[0]] * 3, 'threads have other results')
    before = ticks
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.001)
    must(ticks == before + 1, 'a signal is lost')
    if get(16) % 20 == 0:
        must(subprocess.run(['true']).returncode == 0, 'a child failed')
    put(16, get(16) + 1)
    time.sleep(0.003)
    if get(0):
        break
print('ok', flush=True)
