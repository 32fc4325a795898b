-- The time, in microseconds since 1970.
CREATE FUNCTION punctual.clock() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

CREATE FUNCTION punctual.later(moment bigint, delay bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN delay > 9223372036854775807 - greatest(moment, 0) THEN 9223372036854775807 ELSE moment + delay END $$;

-- The version after this one: another in any case, and never too great, whatever somebody has written into the row.
CREATE FUNCTION punctual.next(version bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT (version & 4611686018427387903) + 1 $$;

-- The numbers of the other transactions in progress. By way of text: as a query it would take several times as long.
CREATE FUNCTION punctual.in_progress() RETURNS bigint[] LANGUAGE sql STABLE AS
$$ SELECT string_to_array(split_part(pg_current_snapshot()::text, ':', 3), ',')::bigint[] $$;

-- The number of a line, which is made if it is new.
CREATE FUNCTION punctual.line_of(in_queue text, of_kind text, in_lane smallint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    found_id integer;
BEGIN
    LOOP
        SELECT l.id INTO found_id FROM punctual.line l
        WHERE l.queue = in_queue AND l.kind = of_kind AND l.lane = in_lane;
        IF FOUND THEN
            RETURN found_id;
        END IF;
        INSERT INTO punctual.queue (name) VALUES (in_queue) ON CONFLICT DO NOTHING;
        INSERT INTO punctual.line (queue, kind, lane) VALUES (in_queue, of_kind, in_lane) ON CONFLICT DO NOTHING;
    END LOOP;
END $$;

-- Accepts jobs. Of each: the place of its line among those named; its due time, or how long after now; and the rest. A line
-- whose queue is null is not made: its jobs are in none, number 0, and the caller sees to it that they get one.
-- An array that is null is all nulls. Answers in their order; `how` is 0 for a new job, 1 for one that had the key and
-- stays as it is, 2 for one that had it and has been replaced. A key that is taken and may not be is error PU001.
CREATE FUNCTION punctual.accept(
    moment bigint, queues text[], kinds text[], lanes smallint[], places integer[], relative boolean[], dues bigint[],
    payloads bytea[], most_attempts bigint[], most_crashes bigint[], on_losts smallint[], timeouts bigint[],
    uniqs text[], policies smallint[], serieses text[], nominals bigint[], parents bigint[], follows text[],
    misseds bigint[] DEFAULT NULL
) RETURNS TABLE (id bigint, how smallint, version bigint, due bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    -- Drawn before the clock is read: see `low.rs`.
    number CONSTANT xid8 := pg_current_xact_id();
    at_moment bigint;
    lines integer[] := '{}';
    new record;
BEGIN
    at_moment := coalesce(moment, punctual.clock());
    FOR place IN 1 .. cardinality(queues) LOOP
        lines := lines || CASE WHEN queues[place] IS NULL THEN 0
            ELSE punctual.line_of(queues[place], kinds[place], lanes[place]) END;
    END LOOP;
    IF uniqs IS NULL AND cardinality(places) = 1 THEN
        due := CASE WHEN relative[1] THEN punctual.later(at_moment, dues[1]) ELSE dues[1] END;
        INSERT INTO punctual.job (due, late, line, on_lost, created, max_attempts, max_crashes, timeout, nominal, parent,
            series, follow, payload, missed)
        VALUES (accept.due, NOT relative[1] AND accept.due < at_moment, lines[1], on_losts[1], at_moment, most_attempts[1], most_crashes[1],
            timeouts[1], nominals[1], parents[1], serieses[1], follows[1], payloads[1], misseds[1])
        RETURNING job.id, 0, job.version INTO id, how, version;
        RETURN NEXT;
        RETURN;
    END IF;
    IF uniqs IS NULL THEN
        RETURN QUERY
        INSERT INTO punctual.job (due, late, line, on_lost, created, max_attempts, max_crashes, timeout, nominal, parent,
            series, follow, payload, missed)
        SELECT CASE WHEN n.relative THEN punctual.later(at_moment, n.due) ELSE n.due END,
            NOT n.relative AND n.due < at_moment, lines[n.place], n.on_lost, at_moment, n.max_attempts, n.max_crashes, n.timeout, n.nominal, n.parent, n.series, n.follow, n.payload, n.missed
        FROM unnest(places, relative, dues, payloads, most_attempts, most_crashes, on_losts, timeouts, serieses,
            nominals, parents, follows, misseds)
            n (place, relative, due, payload, max_attempts, max_crashes, on_lost, timeout, series, nominal, parent, follow,
            missed)
        RETURNING job.id, 0::smallint, job.version, job.due;
        RETURN;
    END IF;
    FOR new IN
        SELECT * FROM unnest(places, relative, dues, payloads, most_attempts, most_crashes, on_losts, timeouts, uniqs,
            policies, serieses, nominals, parents, follows, misseds)
            n (place, relative, due, payload, max_attempts, max_crashes, on_lost, timeout, uniq, policy, series, nominal,
            parent, follow, missed)
    LOOP
        due := CASE WHEN new.relative THEN punctual.later(at_moment, new.due) ELSE new.due END;
        LOOP
            IF new.uniq IS NOT NULL THEN
                -- Not locked: whoever reports on it must not wait for the transaction of a caller.
                SELECT j.id INTO id FROM punctual.job j WHERE j.uniq = new.uniq;
                IF FOUND THEN
                    how := 1;
                    IF new.policy = 1 THEN
                        RAISE EXCEPTION 'the unique key % belongs to job %', to_json(new.uniq), id
                            USING ERRCODE = 'PU001';
                    ELSIF new.policy = 2 THEN
                        UPDATE punctual.job j SET due = accept.due, late = accept.due < at_moment, payload = new.payload,
                            follow = new.follow, version = punctual.next(j.version)
                        WHERE j.id = accept.id AND j.state = 0 RETURNING j.version INTO version;
                        how := CASE WHEN FOUND THEN 2 ELSE 1 END;
                    END IF;
                    EXIT;
                END IF;
            END IF;
            INSERT INTO punctual.job (due, late, line, on_lost, created, max_attempts, max_crashes, timeout, nominal,
                parent, uniq, series, follow, payload, missed)
            VALUES (accept.due, accept.due < at_moment, lines[new.place], new.on_lost, at_moment, new.max_attempts, new.max_crashes, new.timeout,
                new.nominal, new.parent, new.uniq, new.series, new.follow, new.payload, new.missed)
            ON CONFLICT (uniq) WHERE uniq IS NOT NULL DO NOTHING RETURNING job.id INTO id;
            IF FOUND THEN
                how := 0;
                version := 1;
                EXIT;
            END IF;
        END LOOP;
        RETURN NEXT;
    END LOOP;
END $$;

-- Accepts jobs without keys, as new ones, and rings: see `bell.rs`. Nodes see and hear of them before they are on the disk.
-- The caller is answered when they are: with the record of a second transaction goes everything before it. So does the
-- claim of whoever starts one of them. `origin`: who rings; what it says follows, as `news.rs` reads it: few jobs of one
-- line are named.
CREATE PROCEDURE punctual.accept_and_ring(
    origin text, moment bigint, queues text[], kinds text[], lanes smallint[], places integer[], relative boolean[],
    dues bigint[], payloads bytea[], most_attempts bigint[], most_crashes bigint[], on_losts smallint[],
    timeouts bigint[], follows text[], INOUT ids bigint[], INOUT versions bigint[], INOUT instants bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    said text := '';
BEGIN
    SET LOCAL synchronous_commit = off;
    SELECT array_agg(a.id), array_agg(a.version), array_agg(a.due) INTO ids, versions, instants
    FROM punctual.accept(moment, queues, kinds, lanes, places, relative, dues, payloads, most_attempts, most_crashes,
        on_losts, timeouts, NULL, NULL, NULL, NULL, NULL, follows) a;
    IF cardinality(kinds) = 1 AND cardinality(ids) <= 100 THEN
        said := 'n ' || lanes[1] || ' '
            || (SELECT string_agg(n.id || ' ' || n.due, ' ') FROM unnest(ids, instants) n (id, due)) || '|' || kinds[1];
    END IF;
    -- A courtesy: nothing fails because somebody has not listened for long.
    IF pg_notification_queue_usage() < 0.9 THEN
        PERFORM pg_notify('punctual', origin || said);
    END IF;
    COMMIT;
    PERFORM pg_logical_emit_message(true, 'punctual', '');
END $$;

-- The same for one job, in fewer steps: somebody may be waiting for it to start. Again, its number is drawn before the
-- clock is read.
CREATE PROCEDURE punctual.accept_one_and_ring(
    origin text, moment bigint, in_queue text, of_kind text, in_lane smallint, relative boolean, in_due bigint,
    payload bytea, max_attempts bigint, max_crashes bigint, on_lost smallint, timeout bigint, follow text,
    INOUT id bigint, INOUT version bigint, INOUT due bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    rang boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    LOOP
        WITH t AS MATERIALIZED (
            SELECT pg_current_xact_id() AS number
        ), m AS MATERIALIZED (
            SELECT coalesce(moment, punctual.clock()) AS at FROM t
        ), n AS (
            INSERT INTO punctual.job AS j (due, late, line, on_lost, created, max_attempts, max_crashes, timeout, follow,
                payload)
            SELECT CASE WHEN relative THEN punctual.later(m.at, in_due) ELSE in_due END, NOT relative AND in_due < m.at,
                l.id, on_lost, m.at, max_attempts, max_crashes, timeout, follow, payload
            FROM m CROSS JOIN punctual.line l WHERE l.queue = in_queue AND l.kind = of_kind AND l.lane = in_lane
            RETURNING j.id, j.version, j.due
        )
        SELECT n.id, n.version, n.due, CASE WHEN pg_notification_queue_usage() < 0.9 THEN
            pg_notify('punctual', origin || 'n ' || in_lane || ' ' || n.id || ' ' || n.due || '|' || of_kind) IS NULL END
        INTO id, version, due, rang FROM n;
        EXIT WHEN FOUND;
        PERFORM punctual.line_of(in_queue, of_kind, in_lane);
    END LOOP;
    COMMIT;
    PERFORM pg_logical_emit_message(true, 'punctual', '');
END $$;

-- Moves jobs that are locked by the caller to where the rules say. Those that are over go to the past.
CREATE FUNCTION punctual.follow(
    moment bigint, ids bigint[], states smallint[], dues bigint[], attempts integer[], crashed integer[], notes bytea[],
    failures bytea[], forget_owner boolean
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO punctual.failure (job, fence, attempt, at, message)
    SELECT j.id, j.fence, j.attempt, moment, n.failure
    FROM unnest(ids, failures) n (id, failure) JOIN punctual.job j ON j.id = n.id
    WHERE n.failure IS NOT NULL
    ON CONFLICT (job, fence) DO UPDATE SET attempt = excluded.attempt, at = excluded.at, message = excluded.message;

    UPDATE punctual.job j SET state = 0, due = n.due, late = n.due < moment, attempt = n.attempt, crashes = n.crashes,
        note = coalesce(n.note, j.note), version = punctual.next(j.version), cancel = false,
        owner = CASE WHEN forget_owner THEN NULL ELSE j.owner END, traces = j.traces OR n.failure IS NOT NULL
    FROM unnest(ids, states, dues, attempts, crashed, notes, failures)
        n (id, state, due, attempt, crashes, note, failure)
    WHERE j.id = n.id AND n.state = 0;

    WITH gone AS (
        DELETE FROM punctual.job j
        USING unnest(ids, states, dues, attempts, crashed, notes) n (id, state, due, attempt, crashes, note)
        WHERE j.id = n.id AND n.state > 1
        RETURNING j.*, n.state AS new_state, n.due AS new_due, n.attempt AS new_attempt, n.crashes AS new_crashes,
            n.note AS new_note
    )
    INSERT INTO punctual.past (id, due, line, state, on_lost, version, attempt, crashes, fence, owner, claimed, created,
        finished, max_attempts, max_crashes, timeout, nominal, missed, parent, uniq, series, follow, note, payload)
    SELECT id, new_due, line, new_state, on_lost, punctual.next(version), new_attempt, new_crashes, fence,
        CASE WHEN forget_owner THEN NULL ELSE owner END, claimed, created, moment, max_attempts, max_crashes, timeout,
        nominal, missed, parent, uniq, series, CASE WHEN new_state = 2 THEN NULL ELSE follow END, coalesce(new_note, note),
        CASE WHEN new_state = 5 THEN payload END
    FROM gone;
END $$;

-- How many of those that wait in each lane get one of the places: as `lane.rs` says.
CREATE FUNCTION punctual.share(room bigint, waiting bigint[]) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    given bigint[] := '{0,0,0,0}';
    free bigint := room;
    before bigint;
    open_weights bigint;
    shares bigint[];
    more bigint;
BEGIN
    LOOP
        open_weights := 0;
        FOR lane IN 1 .. 4 LOOP
            IF given[lane] < waiting[lane] THEN
                open_weights := open_weights + (8 >> (lane - 1));
            END IF;
        END LOOP;
        IF free = 0 OR open_weights = 0 THEN
            RETURN given;
        END IF;
        shares := '{0,0,0,0}';
        FOR lane IN 1 .. 4 LOOP
            IF given[lane] < waiting[lane] THEN
                shares[lane] := greatest(free * (8 >> (lane - 1)) / open_weights,
                    CASE WHEN room >= 4 AND given[lane] = 0 THEN 1 ELSE 0 END);
            END IF;
        END LOOP;
        before := free;
        FOR lane IN REVERSE 4 .. 1 LOOP
            more := least(shares[lane], waiting[lane] - given[lane], free);
            given[lane] := given[lane] + more;
            free := free - more;
        END LOOP;
        IF free = before THEN
            FOR lane IN 1 .. 4 LOOP
                IF given[lane] < waiting[lane] THEN
                    given[lane] := given[lane] + 1;
                    free := free - 1;
                    EXIT;
                END IF;
            END LOOP;
        END IF;
    END LOOP;
END $$;

-- The lines of these kinds whose queues are not paused: with the instant before which nothing waits there, and when the
-- first job is due that does wait. `known`: whether the caller has named the line.
CREATE FUNCTION punctual.lines(kinds text[], low_lines integer[], lows bigint[])
RETURNS TABLE (line integer, queue text, kind text, lane smallint, most bigint, low bigint, first bigint, known boolean)
LANGUAGE sql STABLE AS $$
    SELECT l.id, l.queue, l.kind, l.lane, q.most, w.low,
        (SELECT j.due FROM punctual.job j WHERE j.line = l.id AND j.due >= w.low AND j.state = 0
         ORDER BY j.due LIMIT 1),
        l.id = ANY (low_lines)
    FROM punctual.line l
    JOIN punctual.queue q ON q.name = l.queue AND q.paused_at IS NULL
    CROSS JOIN LATERAL (SELECT least(
        coalesce((SELECT u.low FROM unnest(low_lines, lows) u (line, low) WHERE u.line = l.id), -9223372036854775808),
        (SELECT j.due FROM punctual.job j WHERE j.line = l.id AND j.late AND j.state = 0
         ORDER BY j.due LIMIT 1)) AS low OFFSET 0) w
    WHERE l.kind = ANY (kinds)
$$;

-- How many more jobs of a queue may be claimed.
CREATE FUNCTION punctual.room(of_queue text, most bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT greatest(greatest(most, 0) - count(DISTINCT j.id), 0) FROM punctual.node n CROSS JOIN LATERAL unnest(n.held) h (id)
    JOIN punctual.job j ON j.id = h.id AND j.owner = n.id AND j.state = 1
    JOIN punctual.line l ON l.id = j.line
    WHERE l.queue = of_queue
$$;

-- What comes due after one instant and by another, earliest first, at most `most` and one more; and at the end a row
-- without an id: what is known of the lines, when the first after those is due, whether any is before, the
-- numbers of the transactions in progress and the time.
CREATE FUNCTION punctual.peek(
    moment bigint, kinds text[], since bigint, until bigint, most bigint, low_lines integer[], lows bigint[]
) RETURNS TABLE (
    id bigint, version bigint, due bigint, lane smallint,
    lines integer[], firsts bigint[], next bigint, overdue boolean, pending bigint[], now bigint
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    line_queues text[];
    line_lanes smallint[];
    line_lows bigint[];
    line_mosts bigint[];
    -- Of the lines where something waits and there is room.
    open_lines integer[];
    open_queues text[];
    open_lanes smallint[];
    open_lows bigint[];
    open_firsts bigint[];
    rooms bigint[];
    limited boolean;
BEGIN
    SELECT array_agg(l.line), array_agg(l.first), array_agg(l.queue), array_agg(l.lane), array_agg(l.low),
        array_agg(l.most)
    INTO lines, firsts, line_queues, line_lanes, line_lows, line_mosts
    FROM punctual.lines(kinds, low_lines, lows) l;
    SELECT array_agg(s.line), array_agg(s.queue), array_agg(s.lane), array_agg(s.low), array_agg(s.first),
        array_agg(s.room), coalesce(bool_or(s.room IS NOT NULL), false)
    INTO open_lines, open_queues, open_lanes, open_lows, open_firsts, rooms, limited
    FROM (SELECT l.*, CASE WHEN l.most IS NOT NULL THEN punctual.room(l.queue, l.most) END AS room
          FROM unnest(lines, line_queues, line_lanes, line_lows, firsts, line_mosts)
              l (line, queue, lane, low, first, most)
          WHERE l.first IS NOT NULL) s
    WHERE coalesce(s.room, 1) > 0;
    IF limited THEN
        RETURN QUERY
        SELECT s.id, s.version, s.due, s.lane, NULL::integer[], NULL::bigint[], NULL::bigint,
            NULL::boolean, NULL::bigint[], NULL::bigint
        FROM (SELECT w.*, u.lane, u.room, row_number() OVER (PARTITION BY u.queue ORDER BY u.lane, w.due, w.id) AS nth
              FROM unnest(open_lines, open_queues, open_lanes, open_lows, open_firsts, rooms)
                  u (line, queue, lane, low, first, room)
              CROSS JOIN LATERAL (SELECT j.id, j.version, j.due FROM punctual.job j
                  WHERE j.line = u.line AND j.state = 0 AND j.due >= greatest(since, u.low) AND j.due <= until
                  ORDER BY j.due, j.id + 0 LIMIT most + 1) w
              WHERE u.first <= until) s
        WHERE s.room IS NULL OR s.nth <= s.room
        ORDER BY s.due, s.id LIMIT most + 1;
    ELSE
        RETURN QUERY
        SELECT w.id, w.version, w.due, u.lane, NULL::integer[], NULL::bigint[], NULL::bigint,
            NULL::boolean, NULL::bigint[], NULL::bigint
        FROM unnest(open_lines, open_lanes, open_lows, open_firsts) u (line, lane, low, first)
        CROSS JOIN LATERAL (SELECT j.id, j.version, j.due FROM punctual.job j
            WHERE j.line = u.line AND j.state = 0 AND j.due >= greatest(since, u.low) AND j.due <= until
            ORDER BY j.due, j.id + 0 LIMIT most + 1) w
        WHERE u.first <= until
        ORDER BY w.due, w.id LIMIT most + 1;
    END IF;
    SELECT min(CASE WHEN u.first > until THEN u.first ELSE (
               SELECT j.due FROM punctual.job j WHERE j.line = u.line AND j.state = 0 AND j.due > until
               ORDER BY j.due LIMIT 1) END),
           coalesce(bool_or(u.first < since), false)
    INTO next, overdue
    FROM unnest(open_lines, open_firsts) u (line, first);
    pending := punctual.in_progress();
    now := coalesce(moment, punctual.clock());
    RETURN NEXT;
END $$;

-- One exchange of a node: records what is done, then claims jobs that were seen, then such as are due.
--
-- A row for each job that it has claimed; and at the end one without an id: `answers` for what was said to be done (0
-- stale, 1 already, 2 done; null if all are), what is known of the lines and the names of those that the caller did not
-- know; whether less was due than asked for, whether something was left because its queue is full; the time before this
-- transaction had a number, the number, the other numbers in progress, and the time.
--
-- `here` and `wrote`: where the row of the node was last written by the caller, and in which transaction; `still`: what it
-- held then, without what is done. If the row is still the same, nobody need compute what it holds, nor look for it among
-- all that it has been while somebody held a snapshot. `place` and `held`: where the row is now, if it was written, and
-- what is held, if the caller does not know.
--
-- `tidy`: whether `held` may have jobs that others have moved on. `keep`: whether jobs that are done are kept; if not, one
-- that nobody knows is taken for one that was.
CREATE FUNCTION punctual.exchange(
    me bigint, moment bigint, tidy boolean, keep boolean, done_ids bigint[], done_fences bigint[], claim_ids bigint[],
    claim_versions bigint[], sweep bigint, kinds text[], low_lines integer[], lows bigint[], here tid, wrote bigint,
    still bigint[]
) RETURNS TABLE (
    id bigint, line integer, due bigint, version bigint, attempt integer, crashes integer, max_attempts bigint,
    max_crashes bigint, on_lost smallint, timeout bigint, uniq text, created bigint, fence bigint, claimed bigint,
    cancel boolean, note bytea, payload bytea, series text, nominal bigint, parent bigint, follow text, missed bigint,
    answers smallint[], lines integer[], firsts bigint[], queues text[], line_kinds text[],
    lanes smallint[], drained boolean, crowded boolean, began bigint, number bigint, pending bigint[], place text,
    held bigint[], now bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    start bigint := coalesce(moment, punctual.clock());
    at_moment bigint;
    lease_until bigint;
    my_tid tid;
    my_held bigint[];
    done bigint[];
    traced bigint[];
    line_queues text[];
    line_lanes smallint[];
    line_lows bigint[];
    limited boolean := false;
    room_queues text[];
    rooms bigint[];
    tids tid[];
    taken bigint[] := '{}';
    swept bigint[];
    -- Where something is due.
    sweep_lines integer[];
    sweep_counts bigint[];
    lowest bigint;
    alone boolean;
    first_fence bigint;
    -- Nobody need look at the lines: it claims what was seen, and no queue is paused or limited.
    by_ticket boolean := false;
BEGIN
    SELECT n.until, n.ctid INTO lease_until, my_tid FROM punctual.node n
    WHERE n.ctid = here AND n.id = me AND n.xmin::text::bigint = wrote & 4294967295 FOR UPDATE;
    IF NOT FOUND THEN
        still := NULL;
        SELECT n.until, n.ctid INTO lease_until, my_tid FROM punctual.node n WHERE n.id = me FOR UPDATE;
    END IF;
    began := start;
    number := pg_current_xact_id()::text::bigint;
    at_moment := coalesce(moment, punctual.clock());
    drained := sweep > 0 OR NOT coalesce(lease_until > at_moment, false);
    crowded := false;

    IF cardinality(done_ids) > 0 THEN
        WITH gone AS (
            DELETE FROM punctual.job j USING unnest(done_ids, done_fences) r (id, fence)
            WHERE j.id = r.id AND j.owner = me AND j.fence = r.fence AND j.state = 1
                AND j.series IS NULL AND j.follow IS NULL AND j.asked IS NULL
            RETURNING j.id, j.due, j.line, j.on_lost, j.version, j.attempt, j.crashes, j.fence, j.owner, j.claimed,
                j.created, j.max_attempts, j.max_crashes, j.timeout, j.parent, j.uniq, j.note, j.traces
        ), kept AS (
            INSERT INTO punctual.past (id, due, line, state, on_lost, version, attempt, crashes, fence, owner, claimed,
                created, finished, max_attempts, max_crashes, timeout, parent, uniq, note)
            SELECT g.id, g.due, g.line, 2, g.on_lost, punctual.next(g.version), g.attempt, g.crashes, g.fence, g.owner, g.claimed,
                g.created, at_moment, g.max_attempts, g.max_crashes, g.timeout, g.parent, g.uniq, g.note
            FROM gone g WHERE keep
        )
        SELECT coalesce(array_agg(g.id), '{}'), array_agg(g.id) FILTER (WHERE g.traces AND NOT keep) INTO done, traced
        FROM gone g;
        IF traced IS NOT NULL THEN
            DELETE FROM punctual.failure f WHERE f.job = ANY (traced);
            DELETE FROM punctual.progress p WHERE p.job = ANY (traced);
            DELETE FROM punctual.log l WHERE l.job = ANY (traced);
        END IF;
        IF cardinality(done) < cardinality(done_ids) THEN
            IF EXISTS (SELECT FROM unnest(done_ids, done_fences) r (id, fence) JOIN punctual.job j ON j.id = r.id
                       WHERE j.owner = me AND j.fence = r.fence AND j.state = 1) THEN
                RAISE EXCEPTION 'a job that is done has more to it' USING ERRCODE = 'PU002';
            END IF;
            SELECT array_agg(CASE
                WHEN r.nth = 1 AND r.id = ANY (done) AND (NOT keep OR EXISTS (
                    SELECT FROM punctual.past p WHERE p.id = r.id AND p.fence = r.fence)) THEN 2
                WHEN NOT keep AND NOT EXISTS (SELECT FROM punctual.job j WHERE j.id = r.id)
                    AND NOT EXISTS (SELECT FROM punctual.past p WHERE p.id = r.id) THEN 1
                WHEN EXISTS (SELECT FROM punctual.past p WHERE p.id = r.id AND p.owner = me AND p.fence = r.fence)
                    OR EXISTS (SELECT FROM punctual.job j WHERE j.id = r.id AND j.owner = me AND j.fence = r.fence) THEN 1
                ELSE 0 END ORDER BY r.place)
            INTO answers
            FROM (SELECT u.*, row_number() OVER (PARTITION BY u.id, u.fence ORDER BY u.place) AS nth
                  FROM unnest(done_ids, done_fences) WITH ORDINALITY u (id, fence, place)) r;
        END IF;
    END IF;

    IF lease_until > at_moment AND sweep = 0 AND cardinality(claim_ids) > 0 THEN
        by_ticket := NOT EXISTS (SELECT FROM punctual.queue q WHERE q.paused_at IS NOT NULL OR q.most IS NOT NULL);
    END IF;
    IF by_ticket THEN
        SELECT array_agg(c.tid ORDER BY c.place), array_agg(c.id),
            array_agg(c.line) FILTER (WHERE c.new), array_agg(c.queue) FILTER (WHERE c.new),
            array_agg(c.kind) FILTER (WHERE c.new), array_agg(c.lane) FILTER (WHERE c.new)
        INTO tids, taken, lines, queues, line_kinds, lanes
        FROM (SELECT j.ctid AS tid, j.id, t.place, l.id AS line, l.queue, l.kind, l.lane,
                  NOT l.id = ANY (low_lines) AS new
              FROM unnest(claim_ids, claim_versions) WITH ORDINALITY t (id, version, place)
              JOIN punctual.job j ON j.id = t.id AND j.version = t.version AND j.state = 0
              JOIN punctual.line l ON l.id = j.line AND l.kind = ANY (kinds)
              FOR UPDATE OF j SKIP LOCKED) c;
        IF cardinality(tids) > 0 THEN
            -- Drawn when the jobs are ours: greater than that of any claim before.
            first_fence := nextval('punctual.fence');
            RETURN QUERY
            UPDATE punctual.job j SET state = 1, owner = me, fence = first_fence + c.place, claimed = at_moment,
                attempt = least(j.attempt, 2147483646) + 1, version = punctual.next(j.version)
            FROM unnest(tids) WITH ORDINALITY c (tid, place) WHERE j.ctid = c.tid
            RETURNING j.id, j.line, j.due, j.version, j.attempt, j.crashes, j.max_attempts, j.max_crashes, j.on_lost,
                j.timeout, j.uniq, j.created, j.fence, j.claimed, j.cancel, j.note, j.payload, j.series, j.nominal,
                j.parent, j.follow, j.missed, NULL::smallint[], NULL::integer[], NULL::bigint[], NULL::text[],
                NULL::text[], NULL::smallint[], NULL::boolean, NULL::boolean, NULL::bigint, NULL::bigint,
                NULL::bigint[], NULL::text, NULL::bigint[], NULL::bigint;
        ELSE
            taken := '{}';
        END IF;
    ELSIF lease_until > at_moment AND (cardinality(claim_ids) > 0 OR sweep > 0) THEN
        -- Not after the lines have been looked at: see `low.rs`.
        pending := punctual.in_progress();
        SELECT array_agg(l.line), array_agg(l.first), array_agg(l.queue), array_agg(l.lane),
            array_agg(l.low), coalesce(bool_or(l.most IS NOT NULL), false),
            array_agg(CASE WHEN l.known THEN NULL ELSE l.queue END),
            array_agg(CASE WHEN l.known THEN NULL ELSE l.kind END),
            array_agg(l.line) FILTER (WHERE l.first <= at_moment), min(l.low) FILTER (WHERE l.first <= at_moment)
        INTO lines, firsts, line_queues, line_lanes, line_lows, limited, queues, line_kinds, sweep_lines, lowest
        FROM punctual.lines(kinds, low_lines, lows) l;
        lanes := line_lanes;

        IF limited THEN
            SELECT n.held INTO my_held FROM punctual.node n WHERE n.ctid = my_tid;
            -- Claims from queues with a limit are made one after the other.
            PERFORM FROM punctual.queue q WHERE q.most IS NOT NULL AND q.name IN (
                SELECT u.queue FROM unnest(lines, line_queues, firsts) u (line, queue, first)
                WHERE u.first <= at_moment OR u.line IN (
                    SELECT j.line FROM punctual.job j WHERE j.id = ANY (claim_ids) AND j.state = 0))
            ORDER BY q.name FOR UPDATE;
            SELECT array_agg(q.name), array_agg(punctual.room(q.name, q.most)) INTO room_queues, rooms
            FROM punctual.queue q WHERE q.most IS NOT NULL AND q.name = ANY (line_queues);
        END IF;

        IF cardinality(claim_ids) > 0 THEN
            SELECT array_agg(s.tid ORDER BY s.place), array_agg(s.id) INTO tids, swept
            FROM (SELECT c.*, row_number() OVER (PARTITION BY c.queue ORDER BY c.place) AS nth
                  FROM (SELECT j.ctid AS tid, j.id, t.place, line_queues[array_position(lines, j.line)] AS queue
                        FROM unnest(claim_ids, claim_versions) WITH ORDINALITY t (id, version, place)
                        JOIN punctual.job j ON j.id = t.id AND j.version = t.version AND j.state = 0
                            AND j.line = ANY (lines)
                        FOR UPDATE OF j SKIP LOCKED) c) s
            WHERE NOT limited OR s.nth <= coalesce(rooms[array_position(room_queues, s.queue)], s.nth);
            IF cardinality(tids) > 0 THEN
                taken := swept;
                -- Drawn when the jobs are ours: greater than that of any claim before.
                first_fence := nextval('punctual.fence');
                RETURN QUERY
                UPDATE punctual.job j SET state = 1, owner = me, fence = first_fence + c.place, claimed = at_moment,
                    attempt = least(j.attempt, 2147483646) + 1, version = punctual.next(j.version)
                FROM unnest(tids) WITH ORDINALITY c (tid, place) WHERE j.ctid = c.tid
                RETURNING j.id, j.line, j.due, j.version, j.attempt, j.crashes, j.max_attempts, j.max_crashes, j.on_lost,
                    j.timeout, j.uniq, j.created, j.fence, j.claimed, j.cancel, j.note, j.payload, j.series, j.nominal,
                    j.parent, j.follow, j.missed, NULL::smallint[], NULL::integer[], NULL::bigint[], NULL::text[],
                    NULL::text[], NULL::smallint[], NULL::boolean, NULL::boolean, NULL::bigint, NULL::bigint,
                    NULL::bigint[], NULL::text, NULL::bigint[], NULL::bigint;
                IF limited THEN
                    SELECT array_agg(punctual.room(q.name, q.most) - (
                        SELECT count(*) FROM punctual.job j JOIN unnest(lines, line_queues) l (line, queue) ON l.line = j.line
                        WHERE j.id = ANY (taken) AND NOT j.id = ANY (my_held) AND l.queue = q.name) ORDER BY r.place)
                    INTO rooms
                    FROM unnest(room_queues) WITH ORDINALITY r (queue, place) JOIN punctual.queue q ON q.name = r.queue;
                END IF;
            END IF;
        END IF;

        IF sweep > 0 THEN
            alone := NOT limited AND cardinality(sweep_lines) = 1;
            IF NOT alone THEN
                -- How many each line gives, by room, lane and due time.
                WITH seen AS (
                    SELECT u.line, u.lane, w.due, w.id, r.room,
                        row_number() OVER (PARTITION BY u.queue ORDER BY u.lane, w.due, w.id) AS nth
                    FROM unnest(lines, line_queues, line_lanes, line_lows, firsts) u (line, queue, lane, low, first)
                    CROSS JOIN LATERAL (SELECT j.due, j.id FROM punctual.job j
                        WHERE j.line = u.line AND j.state = 0 AND j.due >= u.low AND j.due <= at_moment
                        ORDER BY j.due, j.id + 0 LIMIT sweep) w
                    LEFT JOIN unnest(room_queues, rooms) r (queue, room) ON r.queue = u.queue
                    WHERE u.first <= at_moment
                ), fit AS (
                    SELECT s.line, s.lane, row_number() OVER (PARTITION BY s.lane ORDER BY s.due, s.id) AS nth
                    FROM seen s WHERE s.room IS NULL OR s.nth <= s.room
                ), given AS (
                    SELECT punctual.share(sweep, ARRAY[
                        least(count(*) FILTER (WHERE f.lane = 0), sweep), least(count(*) FILTER (WHERE f.lane = 1), sweep),
                        least(count(*) FILTER (WHERE f.lane = 2), sweep), least(count(*) FILTER (WHERE f.lane = 3), sweep)
                    ]) AS places FROM fit f
                )
                SELECT array_agg(s.line), array_agg(s.n) INTO sweep_lines, sweep_counts
                FROM (SELECT f.line, count(*) AS n FROM fit f, given g WHERE f.nth <= g.places[f.lane + 1]
                      GROUP BY f.line) s;
            END IF;
            IF cardinality(sweep_lines) > 0 THEN
                IF alone THEN
                    SELECT array_agg(w.tid), array_agg(w.id) INTO tids, swept
                    FROM (SELECT j.ctid AS tid, j.id FROM punctual.job j
                          WHERE j.line = sweep_lines[1] AND j.state = 0 AND j.due >= lowest AND j.due <= at_moment
                          ORDER BY j.due, j.id + 0 LIMIT sweep FOR UPDATE SKIP LOCKED) w;
                ELSE
                    SELECT array_agg(s.tid ORDER BY s.lane, s.due, s.id), array_agg(s.id) INTO tids, swept
                    FROM (SELECT w.tid, w.id, w.due, u.lane
                          FROM unnest(sweep_lines, sweep_counts) c (line, n)
                          JOIN unnest(lines, line_lanes, line_lows) u (line, lane, low) ON u.line = c.line
                          CROSS JOIN LATERAL (SELECT j.ctid AS tid, j.id, j.due FROM punctual.job j
                              WHERE j.line = c.line AND j.state = 0 AND j.due >= u.low AND j.due <= at_moment
                              ORDER BY j.due, j.id + 0 LIMIT c.n FOR UPDATE SKIP LOCKED) w) s;
                END IF;
                drained := coalesce(cardinality(tids), 0) < sweep;
                IF cardinality(tids) > 0 THEN
                    taken := taken || swept;
                    first_fence := nextval('punctual.fence');
                    RETURN QUERY
                    UPDATE punctual.job j SET state = 1, owner = me, fence = first_fence + c.place, claimed = at_moment,
                        attempt = least(j.attempt, 2147483646) + 1, version = punctual.next(j.version)
                    FROM unnest(tids) WITH ORDINALITY c (tid, place) WHERE j.ctid = c.tid
                    RETURNING j.id, j.line, j.due, j.version, j.attempt, j.crashes, j.max_attempts, j.max_crashes,
                        j.on_lost, j.timeout, j.uniq, j.created, j.fence, j.claimed, j.cancel, j.note, j.payload, j.series,
                        j.nominal, j.parent, j.follow, j.missed, NULL::smallint[], NULL::integer[], NULL::bigint[],
                        NULL::text[], NULL::text[], NULL::smallint[], NULL::boolean, NULL::boolean, NULL::bigint,
                        NULL::bigint, NULL::bigint[], NULL::text, NULL::bigint[], NULL::bigint;
                END IF;
            END IF;
        END IF;
        IF limited THEN
            crowded := EXISTS (SELECT FROM unnest(lines, line_queues, line_lows) u (line, queue, low)
                JOIN punctual.queue q ON q.name = u.queue AND q.most IS NOT NULL
                CROSS JOIN LATERAL (SELECT FROM punctual.job j WHERE j.line = u.line AND j.state = 0
                    AND j.due >= u.low AND j.due <= at_moment LIMIT 1) w);
        END IF;
    END IF;

    IF tidy OR answers IS NOT NULL THEN
        UPDATE punctual.node n SET held = ARRAY(SELECT j.id FROM unnest(n.held) h (id)
            JOIN punctual.job j ON j.id = h.id AND j.owner = me AND j.state = 1 WHERE NOT j.id = ANY (taken)) || taken
        WHERE n.ctid = my_tid RETURNING n.ctid::text, n.held INTO place, held;
    ELSIF cardinality(done_ids) + cardinality(taken) > 0 AND still IS NOT NULL THEN
        UPDATE punctual.node n SET held = still || taken WHERE n.ctid = my_tid RETURNING n.ctid::text INTO place;
    ELSIF cardinality(done_ids) + cardinality(taken) > 0 THEN
        UPDATE punctual.node n
        SET held = ARRAY(SELECT h.id FROM unnest(n.held) h (id) EXCEPT SELECT d.id FROM unnest(done_ids) d (id)
            UNION SELECT t.id FROM unnest(taken) t (id))
        WHERE n.ctid = my_tid RETURNING n.ctid::text, n.held INTO place, held;
    END IF;
    id := NULL;
    now := coalesce(moment, punctual.clock());
    RETURN NEXT;
END $$;

-- Whoever forgets a node that holds jobs would leave them claimed for ever.
CREATE FUNCTION punctual.keep_holder() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(OLD.held) h (id)
               JOIN punctual.job j ON j.id = h.id AND j.owner = OLD.id AND j.state = 1) THEN
        RAISE EXCEPTION 'node % holds jobs, which nobody would rescue without it', OLD.id
            USING HINT = 'When its lease is over, they are rescued, and it is forgotten.';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER keep_holder BEFORE DELETE ON punctual.node FOR EACH ROW EXECUTE FUNCTION punctual.keep_holder();
