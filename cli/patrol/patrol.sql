-- SPDX-License-Identifier: MIT
-- patrol.sql - tables and views for the road "postgres" of `trapline patrol`.
--
--   createdb trapline && psql -f patrol.sql trapline
--
-- A role that only sends needs INSERT on trapline_findings.

BEGIN;

CREATE TABLE IF NOT EXISTS trapline_findings (
  id text PRIMARY KEY,                          -- of host, visit and number: one that is sent twice is there once
  received timestamptz NOT NULL DEFAULT now(),
  line jsonb NOT NULL                           -- as trapline-json(7) and trapline-patrol(1) have it
);
CREATE INDEX IF NOT EXISTS trapline_findings_fingerprint
  ON trapline_findings ((line->>'fingerprint'));

-- Each finding with its members as columns.
CREATE OR REPLACE VIEW trapline_seen AS
SELECT id, received,
  (line->>'time')::timestamptz AS seen,
  line->>'host' AS host,
  line->>'rule' AS rule,
  line->>'program' AS program,
  nullif(line->>'build_id', '') AS build_id,
  line->>'type' AS type,
  line->>'kind' AS kind,
  line->>'grade' AS grade,
  line->>'fingerprint' AS fingerprint,
  coalesce((line->>'count')::bigint, 1) AS count,
  code->>'function' AS function,
  code->>'file' AS file,
  (code->>'line')::int AS line_number,
  line->>'variable' AS variable,
  line
FROM trapline_findings,
  -- Where no access was seen, as of a damaged block: where the block was allocated.
  LATERAL (SELECT CASE WHEN coalesce(line->'first'->'stack', '[]') = '[]'
    AND line->'first'->>'function' IS NULL AND jsonb_typeof(line->'block'->'allocated') = 'object'
    THEN line->'block'->'allocated' ELSE line->'first' END AS code) AS place
WHERE line->>'type' <> 'visit';

-- Each visit of a process: a build without findings was visited too.
CREATE OR REPLACE VIEW trapline_visits AS
SELECT id,
  (line->>'time')::timestamptz AS ended,
  line->>'host' AS host,
  line->>'rule' AS rule,
  line->>'program' AS program,
  nullif(line->>'build_id', '') AS build_id,
  line->>'tool' AS tool,
  line->>'end' AS ended_by,
  (line->>'seconds')::float AS seconds,
  (line->>'cpu_seconds')::float AS cpu_seconds,
  (line->>'findings')::bigint AS findings
FROM trapline_findings
WHERE line->>'type' = 'visit';

-- One row a bug.
CREATE OR REPLACE VIEW trapline_bugs AS
SELECT fingerprint,
  min(type) AS type,
  min(kind) AS kind,
  min(grade) AS grade,
  (array_agg(function ORDER BY seen DESC))[1] AS function,
  (array_agg(file ORDER BY seen DESC))[1] AS file,
  (array_agg(line_number ORDER BY seen DESC))[1] AS line_number,
  (array_agg(program ORDER BY seen DESC))[1] AS program,
  sum(count)::bigint AS count,
  count(DISTINCT host) AS hosts,
  count(DISTINCT build_id) AS builds,
  min(seen) AS first_seen,
  max(seen) AS last_seen
FROM trapline_seen
WHERE fingerprint IS NOT NULL
GROUP BY fingerprint;

COMMIT;
