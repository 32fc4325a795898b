-- What programs in any language may call, in transactions of their own.

-- The time, read when this transaction has a number: see `low.rs`.
CREATE FUNCTION punctual.moment() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_current_xact_id();
    RETURN punctual.clock();
END $$;

CREATE FUNCTION punctual.instant(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN at = 'infinity' THEN 9223372036854775807 WHEN at = '-infinity' THEN -9223372036854775808
        ELSE (extract(epoch FROM at) * 1000000)::bigint END
$$;

CREATE FUNCTION punctual.check_name(what text, name text, most integer) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF name IS NULL OR name = '' THEN
        RAISE EXCEPTION 'the % is empty', what USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(name) > most THEN
        RAISE EXCEPTION 'the % "%…" has % bytes, the most is %', what, left(name, 20), octet_length(name), most
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF name ~ '[\x01-\x1f\x7f-\u009f]' THEN
        RAISE EXCEPTION 'the % % contains a control character', what, to_json(name)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- Tells nodes to look. Told at most once for each transaction, however often it is called; not at all after
-- SET punctual.notify = 'off'.
CREATE FUNCTION punctual.ring(due bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF due <= punctual.clock() + 1000000 AND coalesce(current_setting('punctual.notify', true), '') <> 'off' THEN
        PERFORM pg_notify('punctual', '');
    END IF;
END $$;

-- Jobs that get their line when this transaction commits, because it does not exist yet. Whoever wants a line that somebody
-- else has made waits until that is committed: who enqueues may take as long as it likes. Until then the view does not show
-- them.
CREATE TABLE punctual.arriving (
    job   bigint PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    lane  smallint NOT NULL
);

CREATE FUNCTION punctual.arrive_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    its_line integer := punctual.line_of(NEW.queue, NEW.kind, NEW.lane);
BEGIN
    DELETE FROM punctual.arriving a WHERE a.job = NEW.job;
    UPDATE punctual.job j SET line = its_line WHERE j.id = NEW.job;
    -- Unless it has been cancelled since.
    UPDATE punctual.past p SET line = its_line WHERE p.id = NEW.job;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER arrive_at_commit AFTER INSERT ON punctual.arriving DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION punctual.arrive_at_commit();

-- Accepts a job in this transaction; says its id, or that of the job that has its key.
--
--     SELECT punctual.enqueue('send-invoice', '{"customer": 7}', delay => '1 hour', unique_key => 'invoice-7');
CREATE FUNCTION punctual.enqueue(
    kind text, payload jsonb DEFAULT 'null', queue text DEFAULT 'default', due timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL, lane text DEFAULT 'normal', unique_key text DEFAULT NULL,
    on_conflict text DEFAULT 'keep', max_attempts bigint DEFAULT 20, max_crashes bigint DEFAULT 3,
    on_lost text DEFAULT 'rerun', timeout interval DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    lane_number smallint := array_position('{urgent,normal,low,background}'::text[], lane) - 1;
    policy smallint := array_position('{keep,reject,replace}'::text[], on_conflict) - 1;
    lost smallint := array_position('{rerun,fail}'::text[], on_lost) - 1;
    bytes bytea := convert_to(payload::text, 'UTF8');
    has_line boolean;
    accepted record;
BEGIN
    PERFORM punctual.check_name('kind', kind, 255), punctual.check_name('queue', queue, 255);
    IF unique_key IS NOT NULL THEN
        PERFORM punctual.check_name('unique key', unique_key, 512);
    END IF;
    IF lane_number IS NULL THEN
        RAISE EXCEPTION 'the lane % is none of urgent, normal, low and background', to_json(lane)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF policy IS NULL THEN
        RAISE EXCEPTION 'on_conflict % is none of keep, reject and replace', to_json(on_conflict)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF lost IS NULL THEN
        RAISE EXCEPTION 'on_lost % is none of rerun and fail', to_json(on_lost)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF due IS NOT NULL AND delay IS NOT NULL THEN
        RAISE EXCEPTION 'a job has a due time or a delay, not both' USING ERRCODE = 'invalid_parameter_value';
    ELSIF payload IS NULL THEN
        RAISE EXCEPTION 'a job has a payload, at least a JSON null' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(bytes) > 1048576 THEN
        RAISE EXCEPTION 'the payload has % bytes, the most is 1048576', octet_length(bytes)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF coalesce(max_attempts, 0) NOT BETWEEN 1 AND 4294967295 OR coalesce(max_crashes, -1) NOT BETWEEN 0 AND 4294967295 THEN
        RAISE EXCEPTION 'max_attempts % or max_crashes % makes no sense', max_attempts, max_crashes
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- `due => now()` is when this transaction began, and means at once.
    IF due BETWEEN transaction_timestamp() AND clock_timestamp() THEN
        due := NULL;
    END IF;
    has_line := EXISTS (SELECT FROM punctual.line l
        WHERE l.queue = enqueue.queue AND l.kind = enqueue.kind AND l.lane = lane_number);
    SELECT a.id, a.how, a.due INTO accepted FROM punctual.accept(
        NULL, ARRAY[CASE WHEN has_line THEN queue END], ARRAY[kind], ARRAY[lane_number], '{1}', ARRAY[due IS NULL],
        ARRAY[CASE WHEN due IS NULL THEN greatest(extract(epoch FROM coalesce(delay, '0')) * 1000000, 0)::bigint
            ELSE punctual.instant(due) END],
        ARRAY[bytes], ARRAY[max_attempts], ARRAY[max_crashes], ARRAY[lost],
        ARRAY[greatest(extract(epoch FROM timeout) * 1000000, 0)::bigint],
        CASE WHEN unique_key IS NOT NULL THEN ARRAY[unique_key] END, ARRAY[policy], NULL, NULL, NULL, NULL) a;
    IF NOT has_line AND accepted.how = 0 THEN
        INSERT INTO punctual.arriving (job, queue, kind, lane) VALUES (accepted.id, queue, kind, lane_number);
    END IF;
    PERFORM punctual.ring(accepted.due);
    RETURN accepted.id;
END $$;

-- Jobs that are complete when this transaction commits: while it lasts, nobody who has to do with one must wait for it.
CREATE TABLE punctual.completing (
    job       bigint NOT NULL,
    fence     bigint NOT NULL,
    owner     bigint,
    to_follow text
);

-- Whether somebody else has it by now is asked here once more: this is what counts.
CREATE FUNCTION punctual.complete_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM punctual.completing c WHERE c.ctid = NEW.ctid;
    UPDATE punctual.job j SET complete = NEW.fence, asked = NEW.to_follow
    WHERE j.id = NEW.job AND j.fence = NEW.fence AND j.state = 1 AND j.owner = coalesce(NEW.owner, j.owner)
        AND j.complete IS DISTINCT FROM NEW.fence;
    IF NOT FOUND THEN
        PERFORM punctual.refuse_completion(NEW.job, NEW.fence);
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER complete_at_commit AFTER INSERT ON punctual.completing DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION punctual.complete_at_commit();

CREATE FUNCTION punctual.refuse_completion(job_id bigint, its_fence bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'job % is not held under fence % any more, or has been completed', job_id, its_fence
        USING ERRCODE = 'PU003';
END $$;

-- Completes a job in the transaction of its handler: from its commit on it is done, whatever becomes of the handler or its
-- node. If somebody else has it by now, or it has been completed before, that is error PU003, and the transaction comes to
-- nothing: if so, the call says it, or else the commit. `to_follow`: what is to follow it, as `complete_in` writes it.
CREATE FUNCTION punctual.complete(
    job_id bigint, its_fence bigint, its_owner bigint DEFAULT NULL, to_follow text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM punctual.job j
                   WHERE j.id = job_id AND j.fence = its_fence AND j.state = 1 AND j.owner = coalesce(its_owner, j.owner)
                       AND j.complete IS DISTINCT FROM its_fence) THEN
        PERFORM punctual.refuse_completion(job_id, its_fence);
    END IF;
    INSERT INTO punctual.completing (job, fence, owner, to_follow) VALUES (job_id, its_fence, its_owner, to_follow);
END $$;

-- Jobs that are to be cancelled when this transaction commits: while it lasts, nobody who holds one must wait for it.
CREATE TABLE punctual.cancelling (
    job bigint NOT NULL
);

CREATE FUNCTION punctual.cancel_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM punctual.cancelling c WHERE c.ctid = NEW.ctid;
    PERFORM punctual.cancel_now(NEW.job);
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER cancel_at_commit AFTER INSERT ON punctual.cancelling DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION punctual.cancel_at_commit();

-- Takes a job back: 'cancelled' if it had not begun; 'requested' if a node has been asked to stop it, or its schedule
-- must hear of it first; otherwise where it is: 'done', 'discarded', 'cancelled', 'dead' or 'unknown'.
CREATE FUNCTION punctual.cancel(job_id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM punctual.job j WHERE j.id = job_id AND j.state = 1) THEN
        INSERT INTO punctual.cancelling (job) VALUES (job_id);
        RETURN 'requested';
    END IF;
    RETURN punctual.cancel_now(job_id);
END $$;

CREATE FUNCTION punctual.cancel_now(job_id bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    at_moment bigint := punctual.moment();
    job record;
    past_state smallint;
BEGIN
    SELECT j.* INTO job FROM punctual.job j WHERE j.id = job_id FOR UPDATE;
    IF NOT FOUND THEN
        SELECT p.state INTO past_state FROM punctual.past p WHERE p.id = job_id;
        RETURN coalesce((ARRAY['done', 'discarded', 'cancelled', 'dead'])[past_state - 1], 'unknown');
    ELSIF job.state = 1 THEN
        UPDATE punctual.job j SET cancel = true WHERE j.id = job_id;
        RETURN 'requested';
    ELSIF job.series IS NOT NULL THEN
        -- A node takes it, finds that it is to be cancelled, and lets the schedule go on.
        UPDATE punctual.job j SET cancel = true, due = least(j.due, at_moment), late = j.late OR j.due < at_moment,
            version = punctual.next(j.version)
        WHERE j.id = job_id;
        PERFORM punctual.ring(at_moment);
        RETURN 'requested';
    END IF;
    PERFORM punctual.follow(at_moment, ARRAY[job_id], '{4}', ARRAY[job.due], ARRAY[job.attempt], ARRAY[job.crashes],
        '{NULL}', '{NULL}', false);
    RETURN 'cancelled';
END $$;

-- Changes when a job is due; says whether it waits.
CREATE FUNCTION punctual.reschedule(job_id bigint, new_due timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    at_moment bigint := punctual.moment();
    instant bigint := punctual.instant(new_due);
BEGIN
    IF new_due IS NULL THEN
        RAISE EXCEPTION 'a job is due at some time' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE punctual.job j SET due = instant, late = instant < at_moment, version = punctual.next(j.version)
    WHERE j.id = job_id AND j.state = 0;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM punctual.ring(instant);
    RETURN true;
END $$;

CREATE FUNCTION punctual.time_of(instant bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN instant > 9000000000000000 THEN 'infinity' WHEN instant < -9000000000000000 THEN '-infinity'
        ELSE to_timestamp(instant / 1000000.0) END
$$;

-- Jobs, to be read by people.
CREATE VIEW punctual.jobs AS
SELECT j.id, l.queue, l.kind, (ARRAY['urgent', 'normal', 'low', 'background'])[l.lane + 1] AS lane,
    (ARRAY['scheduled', 'claimed', 'done', 'discarded', 'cancelled', 'dead'])[j.state + 1] AS state,
    punctual.time_of(j.due) AS due, j.attempt, j.crashes, j.uniq AS unique_key, j.series AS schedule,
    punctual.time_of(j.created) AS created, punctual.time_of(j.finished) AS finished, j.owner,
    encode(j.note, 'escape') AS note, encode(j.payload, 'escape') AS payload
FROM (SELECT id, line, state, due, attempt, crashes, uniq, series, created, NULL::bigint AS finished, owner, note, payload
      FROM punctual.job
      UNION ALL
      SELECT id, line, state, due, attempt, crashes, uniq, series, created, finished, owner, note, payload
      FROM punctual.past) j
JOIN punctual.line l ON l.id = j.line;
