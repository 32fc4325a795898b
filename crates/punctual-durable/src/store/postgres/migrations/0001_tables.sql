-- Instants are microseconds since 1970, by the clock of this server; text that may be anything is bytes, because text
-- here cannot hold a NUL.
CREATE SCHEMA IF NOT EXISTS punctual;

-- Numbers, by name: the version of these tables, the id of this store, and the last job that was taken in from each other
-- store.
CREATE TABLE punctual.meta (
    name  text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);
-- Random, and not negative.
INSERT INTO punctual.meta (name, value) SELECT 'store',
    ('x' || replace(gen_random_uuid()::text, '-', ''))::bit(64)::bigint & 9223372036854775807;

CREATE TABLE punctual.queue (
    name       text COLLATE "C" PRIMARY KEY,
    paused_at  bigint,
    paused_for bytea,
    most       bigint             -- claims at once, over all nodes
);
CREATE INDEX queue_held_back ON punctual.queue (name) WHERE paused_at IS NOT NULL OR most IS NOT NULL;

-- Jobs wait in lines. A line is not looked at while its queue is paused or full, or by nodes that do not know its kind:
-- however many jobs wait there, they cost nothing.
CREATE TABLE punctual.line (
    id    integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    lane  smallint NOT NULL,      -- 0 urgent, 1 normal, 2 low, 3 background
    UNIQUE (queue, kind, lane)
);

CREATE SEQUENCE punctual.job_id;

-- A claim draws a block of fences, and numbers its jobs within.
CREATE SEQUENCE punctual.fence INCREMENT BY 65536 START WITH 65536;

-- The living. No index speaks of `state` or of the owner: a claim is an update in place (HOT), for which the pages have
-- room.
CREATE TABLE punctual.job (
    id           bigint PRIMARY KEY DEFAULT nextval('punctual.job_id'),
    due          bigint NOT NULL,
    line         integer NOT NULL,
    state        smallint NOT NULL DEFAULT 0, -- 0 scheduled, 1 claimed
    on_lost      smallint NOT NULL,           -- 0 rerun, 1 fail
    version      bigint NOT NULL DEFAULT 1,
    attempt      integer NOT NULL DEFAULT 0,
    crashes      integer NOT NULL DEFAULT 0,
    fence        bigint NOT NULL DEFAULT 0,
    owner        bigint,
    claimed      bigint,
    complete     bigint,                      -- the fence under which its handler has completed it
    cancel       boolean NOT NULL DEFAULT false, -- its owner has been asked to stop
    late         boolean NOT NULL DEFAULT false, -- it was due before it came to wait
    traces       boolean NOT NULL DEFAULT false, -- there may be failures, progress or a log of it
    created      bigint NOT NULL,
    max_attempts bigint NOT NULL,
    max_crashes  bigint NOT NULL,
    timeout      bigint,
    nominal      bigint,                      -- its time in the schedule
    missed       bigint,                      -- how many before it came to nothing, if any
    parent       bigint,
    uniq         text COLLATE "C",
    series       text COLLATE "C",            -- the schedule that it is an occurrence of
    follow       text,                        -- JSON
    asked        text,                        -- what its handler has completed it with: JSON
    note         bytea,
    payload      bytea
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

-- Ordered by something that is the id and is not called so: where a snapshot is held, vacuum leaves word that the table has
-- no rows, and whoever then looks for a job by its id would be sent through all of this index.
CREATE INDEX job_waiting ON punctual.job (line, due, (id + 0));
-- Nobody looks for what is due from the beginning of a line: those that would be overlooked are here.
CREATE INDEX job_late ON punctual.job (line, due, id) WHERE late;
CREATE UNIQUE INDEX job_uniq ON punctual.job (uniq) WHERE uniq IS NOT NULL;
CREATE INDEX job_series ON punctual.job (series) WHERE series IS NOT NULL;
CREATE INDEX job_parent ON punctual.job (parent) WHERE parent IS NOT NULL;

-- Those that are over: only added to, read and forgotten.
CREATE TABLE punctual.past (
    id           bigint PRIMARY KEY,
    due          bigint NOT NULL,
    line         integer NOT NULL,
    state        smallint NOT NULL, -- 2 done, 3 discarded, 4 cancelled, 5 dead
    on_lost      smallint NOT NULL,
    version      bigint NOT NULL,
    attempt      integer NOT NULL,
    crashes      integer NOT NULL,
    fence        bigint NOT NULL,
    owner        bigint,
    claimed      bigint,
    created      bigint NOT NULL,
    finished     bigint NOT NULL,
    max_attempts bigint NOT NULL,
    max_crashes  bigint NOT NULL,
    timeout      bigint,
    nominal      bigint,
    missed       bigint,
    parent       bigint,
    uniq         text COLLATE "C",
    series       text COLLATE "C",
    follow       text,
    note         bytea,
    payload      bytea              -- of the dead
);

CREATE INDEX past_over ON punctual.past (finished, id) WHERE state < 5;
CREATE INDEX past_dead ON punctual.past (id) WHERE state = 5;
CREATE INDEX past_uniq ON punctual.past (uniq) WHERE uniq IS NOT NULL;
CREATE INDEX past_parent ON punctual.past (parent) WHERE parent IS NOT NULL;

CREATE TABLE punctual.failure (
    job     bigint NOT NULL,
    fence   bigint NOT NULL,
    attempt integer NOT NULL,
    at      bigint NOT NULL,
    message bytea NOT NULL,
    PRIMARY KEY (job, fence)
);

-- How far a job has come, by its own account.
CREATE TABLE punctual.progress (
    job        bigint PRIMARY KEY,
    fence      bigint NOT NULL,
    at         bigint NOT NULL,
    millionths integer NOT NULL,
    message    bytea NOT NULL
) WITH (fillfactor = 50);

-- What its handlers have said.
CREATE TABLE punctual.log (
    job    bigint NOT NULL,
    fence  bigint NOT NULL,
    number bigint NOT NULL,
    at     bigint NOT NULL,
    line   bytea NOT NULL,
    PRIMARY KEY (job, fence, number)
);

-- What each node has counted in each minute: how late attempts began, and how long they ran, in doublings from 125 µs.
CREATE TABLE punctual.run (
    minute bigint NOT NULL,
    node   bigint NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    ending smallint NOT NULL,      -- 0 done, 1 retried, 2 dead, 3 discarded, 4 cancelled, 5 snoozed
    late   bigint[] NOT NULL,
    ran    bigint[] NOT NULL,
    PRIMARY KEY (minute, node, kind, ending)
) WITH (fillfactor = 50);

-- And which errors it has seen in each hour.
CREATE TABLE punctual.error (
    hour        bigint NOT NULL,
    node        bigint NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    fingerprint bigint NOT NULL,
    example     bytea NOT NULL,
    first       bigint NOT NULL,
    last        bigint NOT NULL,
    count       bigint NOT NULL,
    PRIMARY KEY (hour, node, kind, fingerprint)
) WITH (fillfactor = 50);
CREATE INDEX error_last ON punctual.error (last);

-- One row for each life of a process. `held` has every job that it has claimed, and perhaps some that it has not any
-- more: what a dead node held is found here, by primary key.
CREATE TABLE punctual.node (
    id      bigint PRIMARY KEY,
    until   bigint NOT NULL,           -- the end of its lease
    lease   bigint NOT NULL,
    left_at bigint,
    since   bigint NOT NULL,
    held    bigint[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE punctual.node ALTER COLUMN held SET STORAGE EXTERNAL;

CREATE TABLE punctual.schedule (
    name       text COLLATE "C" PRIMARY KEY,
    kind       text COLLATE "C" NOT NULL,
    definition text NOT NULL,      -- JSON
    next       bigint,
    last       bigint,
    owed       bigint,
    version    bigint NOT NULL,
    paused_at  bigint,
    paused_for bytea,
    failures   bigint NOT NULL DEFAULT 0, -- in a row, where they are counted
    missed     bigint NOT NULL DEFAULT 0  -- since the last that happened
);
CREATE INDEX schedule_next ON punctual.schedule (next) WHERE paused_at IS NULL AND next IS NOT NULL;
