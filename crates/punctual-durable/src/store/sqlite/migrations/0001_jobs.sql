-- Numbers, by name: the version of these tables, the last fence, the id of this store, and the last job that was taken
-- in from each other store.
CREATE TABLE punctual_meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO punctual_meta (name, value) VALUES ('fence', 0);
-- Random, and not negative.
INSERT INTO punctual_meta (name, value) VALUES ('store', (random() >> 1) & 9223372036854775807);

CREATE TABLE punctual_queue (
    name        TEXT PRIMARY KEY,
    paused_at   INTEGER,           -- microseconds since 1970, as every instant here
    paused_for  TEXT,
    most        INTEGER            -- claims at once
) WITHOUT ROWID;

-- Jobs wait in lines. A line is not looked at while its queue is paused or full, or by nodes that do not know
-- its kind: however many jobs wait there, they cost nothing.
CREATE TABLE punctual_line (
    id    INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    kind  TEXT NOT NULL,
    lane  INTEGER NOT NULL,        -- 0 urgent, 1 normal, 2 low, 3 background
    UNIQUE (queue, kind, lane)
);

CREATE TABLE punctual_job (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice
    line         INTEGER NOT NULL,
    state        INTEGER NOT NULL, -- 0 scheduled, 1 claimed, 2 done, 3 discarded, 4 cancelled, 5 dead
    due          INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    crashes      INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    max_crashes  INTEGER NOT NULL,
    on_lost      INTEGER NOT NULL, -- 0 rerun, 1 fail
    timeout      INTEGER,
    uniq         TEXT,
    created      INTEGER NOT NULL,
    owner        INTEGER,
    fence        INTEGER NOT NULL,
    claimed      INTEGER,
    complete     INTEGER,          -- the fence under which its handler has completed it
    cancel       INTEGER NOT NULL, -- 1 if its owner has been asked to stop
    finished     INTEGER,
    note         TEXT,
    series       TEXT,             -- the schedule that it is an occurrence of
    nominal      INTEGER,          -- and its time there
    missed       INTEGER,          -- how many before it came to nothing, if any
    parent       INTEGER,          -- the job that it follows
    follow       TEXT,             -- what follows it: JSON
    asked        TEXT,             -- what its handler has completed it with: JSON
    payload      TEXT              -- last, so that the rest is read without it
);

-- With the version, so that nodes can look ahead in the index alone.
CREATE INDEX punctual_job_waiting ON punctual_job (line, due, id, version) WHERE state = 0;
CREATE INDEX punctual_job_claimed ON punctual_job (id) WHERE state = 1;
CREATE INDEX punctual_job_dead ON punctual_job (id) WHERE state = 5;
-- Not `IN`: a table would be made of the list at every update of a row, twice.
CREATE INDEX punctual_job_over ON punctual_job (finished, id) WHERE state >= 2 AND state <= 4;
CREATE INDEX punctual_job_uniq ON punctual_job (uniq) WHERE uniq IS NOT NULL;
-- Among living jobs a key occurs once.
CREATE UNIQUE INDEX punctual_job_key ON punctual_job (uniq) WHERE uniq IS NOT NULL AND state < 2;

CREATE INDEX punctual_job_series ON punctual_job (series) WHERE series IS NOT NULL AND state < 2;
CREATE INDEX punctual_job_parent ON punctual_job (parent) WHERE parent IS NOT NULL;

CREATE TABLE punctual_failure (
    job     INTEGER NOT NULL,
    fence   INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (job, fence)
) WITHOUT ROWID;

-- How far a job has come, by its own account.
CREATE TABLE punctual_progress (
    job        INTEGER PRIMARY KEY,
    fence      INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    millionths INTEGER NOT NULL,
    message    TEXT NOT NULL
);

-- What its handlers have said.
CREATE TABLE punctual_log (
    job    INTEGER NOT NULL,
    fence  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    line   TEXT NOT NULL,
    PRIMARY KEY (job, fence, number)
) WITHOUT ROWID;

-- What each node has counted in each minute: how late attempts began, and how long they ran, in doublings from 125 µs.
CREATE TABLE punctual_run (
    minute INTEGER NOT NULL,
    node   INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    ending INTEGER NOT NULL,       -- 0 done, 1 retried, 2 dead, 3 discarded, 4 cancelled, 5 snoozed
    late   TEXT NOT NULL,          -- JSON
    ran    TEXT NOT NULL,          -- JSON
    PRIMARY KEY (minute, node, kind, ending)
) WITHOUT ROWID;

-- And which errors it has seen in each hour.
CREATE TABLE punctual_error (
    hour        INTEGER NOT NULL,
    node        INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    fingerprint INTEGER NOT NULL,
    example     TEXT NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    count       INTEGER NOT NULL,
    PRIMARY KEY (hour, node, kind, fingerprint)
) WITHOUT ROWID;

CREATE TABLE punctual_schedule (
    name       TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    definition TEXT NOT NULL,      -- JSON
    next       INTEGER,
    last       INTEGER,
    owed       INTEGER,
    version    INTEGER NOT NULL,
    paused_at  INTEGER,
    paused_for TEXT,
    failures   INTEGER NOT NULL DEFAULT 0, -- in a row, where they are counted
    missed     INTEGER NOT NULL DEFAULT 0  -- since the last that happened
) WITHOUT ROWID;

CREATE INDEX punctual_schedule_next ON punctual_schedule (next) WHERE paused_at IS NULL AND next IS NOT NULL;
