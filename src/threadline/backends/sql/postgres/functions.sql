-- What threadline runs on the server. Replaced as a whole by every migration.
--
-- `write` appends in one round trip. It locks the head row and only then, in statements of their own, looks at
-- anything else: a statement that began before the lock was granted would still see what was true before, and two
-- writers could leave a hole or write one key twice. The fold is that of `core/fold.py`, for entries that leave the view
-- as it is or add to its end; those that reshape it are folded in Python, under the same lock. `verify` folds
-- everything again in Python and compares.
--
-- An op is one call: it may have a key, and wrote `counts` entries, whose columns follow in the same order. Of the
-- entries' tool calls and results there is a third list: in which entry, a result or a call, and its id.
--
-- It answers with a list of numbers: first what came of it, then the facts.
--   0 written       head before, opened, and for each op: its first entry, how many, and 1 if it wrote them just now
--   1 no session
--   2 key reused    which op (from 1 on), and the entry that its key wrote
--   3 not active    status
--   4 stale         head
--   5 leased        by somebody else, or no longer by the caller; who has it, the head row says
--   6 charged       a request of that id is known: what it grows to is reckoned in Python
-- Every refusal comes before anything is written: the transaction then commits nothing.

CREATE OR REPLACE FUNCTION threadline.write(
    the_tree     bytea,
    the_session  bigint,
    the_expect   bigint,
    the_lease    bigint,
    durable      boolean,
    keys         bytea[],
    identities   bytea[],
    counts       bigint[],
    moments      bigint[],
    kinds        text[],
    times        bigint[],
    sizes        bigint[],
    voices       bigint[],
    digests      bytea[],
    usages       bytea[],
    bodies       bytea[],
    part_entry   bigint[],
    part_result  boolean[],
    part_id      bytea[],
    opening_by   bigint[],
    opening_at   bigint[],
    opening      bytea[],
    blob_names   bytea[]   DEFAULT '{}',    -- large strings that were cut out of the bodies, each once,
    blob_sizes   bigint[]  DEFAULT '{}',
    blob_bytes   bytea[]   DEFAULT '{}',
    use_entry    bigint[]  DEFAULT '{}',    -- and in which entries they belong
    use_name     bytea[]   DEFAULT '{}',
    spent_op     bigint[]  DEFAULT '{}',    -- what requests took: by which op, and five counts of each
    spent_id     bytea[]   DEFAULT '{}',
    spent_at     bigint[]  DEFAULT '{}',
    spent_model  bytea[]   DEFAULT '{}',
    spent_agent  bytea[]   DEFAULT '{}',
    spent_counts bigint[]  DEFAULT '{}',
    spent_cost   bigint[]  DEFAULT '{}',
    spent_given  bigint[]  DEFAULT '{}'
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    h            threadline.head%ROWTYPE;
    k            record;
    answer       bigint[];
    upcoming     bigint;         -- the seq of the next entry, while it is only planned
    parts        bigint := cardinality(part_id);
    same         bigint;
    e            bigint := 0;    -- the last entry of the ops before
    p            bigint := 1;    -- the next tool call or result
    latest       bigint := 0;
    node_seqs    bigint[];       -- the stack of open calls while one entry works on it: the calls on top,
    node_starts  bigint[];
    node_ids     bytea[];
    node_below   bigint;         -- and the entry with the node below them
    look_seqs    bigint[];
    look_starts  bigint[];
    look_ids     bytea[];
    look_below   bigint;
    look         bigint;
    beneath      bigint;
    changed      boolean;
    said_by      text;
    setting      text;           -- as it was made: an assignment costs a tenth of a statement
BEGIN
    -- Durable is what the caller was promised, whatever this connection was told before.
    IF NOT durable THEN
        setting := set_config('synchronous_commit', 'off', true);
    ELSIF current_setting('synchronous_commit') = 'off' THEN
        setting := set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('lock_timeout') = '0' THEN      -- nobody waits for ever
        setting := set_config('lock_timeout', '30s', true);
    END IF;

    SELECT * INTO h FROM threadline.head t WHERE t.tree = the_tree AND t.session = the_session FOR UPDATE;
    IF NOT FOUND THEN
        RETURN ARRAY[1];
    END IF;

    -- Decide about every op, in order, before anything is written.
    answer := ARRAY[0, h.head, h.opened];
    upcoming := h.head + 1;
    FOR op IN 1 .. cardinality(counts) LOOP
        IF keys[op] IS NOT NULL THEN
            same := array_position(keys[1:op - 1], keys[op]);
            IF same IS NOT NULL THEN
                IF identities[same] <> identities[op] THEN
                    RETURN ARRAY[2, op, answer[same * 3 + 1]];
                END IF;
                answer := answer || ARRAY[answer[same * 3 + 1], answer[same * 3 + 2], 0];
                CONTINUE;
            END IF;
            SELECT t.seq, t.count, t.identity INTO k
            FROM   threadline.share s
            JOIN   threadline.key t ON t.tree = s.tree AND t.log = s.log
                                   AND t.key IN (keys[op], threadline.hidden(keys[op]))
                                   AND t.seq >= s.first AND t.seq + t.count - 1 <= s.last
            WHERE  s.tree = the_tree AND t.tree = the_tree AND s.session = the_session;
            IF FOUND THEN
                IF k.identity <> identities[op] THEN
                    RETURN ARRAY[2, op, k.seq];
                END IF;
                answer := answer || ARRAY[k.seq, k.count, 0];
                CONTINUE;
            END IF;
        END IF;
        IF h.status <> 0 THEN
            RETURN ARRAY[3, h.status];
        END IF;
        IF (h.lease IS NOT NULL OR the_lease IS NOT NULL) AND NOT threadline.may_write(h.lease, the_lease) THEN
            RETURN ARRAY[5];
        END IF;
        IF the_expect <> h.head THEN
            RETURN ARRAY[4, h.head];
        END IF;
        answer := answer || ARRAY[upcoming, counts[op], 1];
        upcoming := upcoming + counts[op];
    END LOOP;
    IF upcoming = h.head + 1 THEN
        RETURN answer;
    END IF;
    FOR s IN 1 .. cardinality(spent_op) LOOP
        IF spent_id[s] IS NOT NULL AND answer[spent_op[s] * 3 + 3] = 1 THEN
            PERFORM 1 FROM threadline.request t WHERE t.tree = the_tree AND t.id = spent_id[s];
            IF FOUND THEN
                RETURN ARRAY[6];
            END IF;
        END IF;
    END LOOP;

    FOR op IN 1 .. cardinality(counts) LOOP
        IF answer[op * 3 + 3] = 0 THEN
            e := e + counts[op];
            WHILE p <= parts AND part_entry[p] <= e LOOP
                p := p + 1;
            END LOOP;
            CONTINUE;
        END IF;
        IF keys[op] IS NOT NULL THEN
            INSERT INTO threadline.key (tree, log, key, seq, count, identity, seal)
            VALUES (the_tree, h.log, keys[op], h.head + 1, counts[op], identities[op],
                    threadline.key_seal(the_tree, h.log, keys[op], h.head + 1, counts[op], identities[op]));
        END IF;
        latest := greatest(latest, moments[op]);

        FOR e IN e + 1 .. e + counts[op] LOOP
            h.head := h.head + 1;
            h.chain := substr(sha256(h.chain || int8send(h.head) || digests[e]), 1, 16);
            changed := false;
            IF voices[e] > 0 THEN
                h.shown := h.shown + 1;
                h.messages := h.messages + 1;
                h.total := h.total + sizes[e];
                h.tokens := h.tokens + sizes[e];
                IF voices[e] = 2 THEN
                    h.asked := h.head;
                ELSIF voices[e] = 3 THEN
                    h.asked := 0;
                END IF;
            END IF;

            -- Calls are pushed; a result closes the latest call of its id, however far down it lies.
            IF p <= parts AND part_entry[p] = e THEN
                node_seqs := '{}'; node_starts := '{}'; node_ids := '{}'; node_below := h.open;
                WHILE p <= parts AND part_entry[p] = e LOOP
                    IF NOT part_result[p] THEN
                        node_seqs := node_seqs || h.head;
                        node_starts := node_starts || 0::bigint;
                        node_ids := node_ids || part_id[p];
                        changed := true;
                    ELSE
                        look_seqs := node_seqs; look_starts := node_starts; look_ids := node_ids;
                        look_below := node_below;
                        look := cardinality(look_ids);
                        LOOP
                            WHILE look > 0 AND look_ids[look] <> part_id[p] LOOP
                                look := look - 1;
                            END LOOP;
                            EXIT WHEN look > 0 OR look_below = 0;
                            SELECT n.open_seqs, n.open_starts, n.open_ids, n.open_below INTO STRICT k
                            FROM   threadline.share s
                            JOIN   threadline.entry n ON n.tree = s.tree AND n.log = s.log AND n.seq = look_below
                            WHERE  s.tree = the_tree AND n.tree = the_tree AND s.session = the_session
                            AND    s.first <= look_below AND s.last >= look_below;
                            look := cardinality(k.open_ids);
                            look_seqs := k.open_seqs || look_seqs;
                            look_starts := k.open_starts || look_starts;
                            look_ids := k.open_ids || look_ids;
                            look_below := k.open_below;
                        END LOOP;
                        IF look > 0 THEN
                            node_seqs := look_seqs[:look - 1] || look_seqs[look + 1:];
                            node_starts := look_starts[:look - 1] || look_starts[look + 1:];
                            node_ids := look_ids[:look - 1] || look_ids[look + 1:];
                            node_below := look_below;
                            changed := true;
                        END IF;
                    END IF;
                    p := p + 1;
                END LOOP;
                IF changed THEN
                    beneath := 0;
                    IF node_below > 0 THEN
                        SELECT n.open_pending INTO STRICT beneath
                        FROM   threadline.share s
                        JOIN   threadline.entry n ON n.tree = s.tree AND n.log = s.log AND n.seq = node_below
                        WHERE  s.tree = the_tree AND n.tree = the_tree AND s.session = the_session
                        AND    s.first <= node_below AND s.last >= node_below;
                    END IF;
                    h.pending := beneath + cardinality(node_ids);
                    changed := cardinality(node_ids) > 0;
                    h.open := CASE WHEN changed THEN h.head ELSE node_below END;
                END IF;
            END IF;

            IF changed THEN
                INSERT INTO threadline.entry
                    (tree, log, seq, at, tokens, view, shown, total, open, asked, voice, kind, digest, chain, key, usage,
                     open_pending, open_below, open_seqs, open_starts, open_ids, body)
                VALUES (the_tree, h.log, h.head, times[e], sizes[e], h.view, h.shown, h.total, h.open, h.asked,
                        voices[e], kinds[e], digests[e], h.chain, keys[op], usages[e],
                        h.pending, node_below, node_seqs, node_starts, node_ids, bodies[e]);
            ELSE
                INSERT INTO threadline.entry
                    (tree, log, seq, at, tokens, view, shown, total, open, asked, voice, kind, digest, chain, key, usage,
                     body)
                VALUES (the_tree, h.log, h.head, times[e], sizes[e], h.view, h.shown, h.total, h.open, h.asked,
                        voices[e], kinds[e], digests[e], h.chain, keys[op], usages[e], bodies[e]);
            END IF;

            FOR b IN 1 .. cardinality(use_entry) LOOP
                IF use_entry[b] = e THEN
                    look := array_position(blob_names, use_name[b]);
                    INSERT INTO threadline.blob (tree, name, size, content)
                    VALUES (the_tree, use_name[b], blob_sizes[look], blob_bytes[look])
                    ON CONFLICT DO NOTHING;
                    INSERT INTO threadline.blob_use (tree, log, seq, name)
                    VALUES (the_tree, h.log, h.head, use_name[b])
                    ON CONFLICT DO NOTHING;
                END IF;
            END LOOP;

            -- The opening words give title and preview: the user's, or the assistant's until there are some.
            FOR o IN 1 .. cardinality(opening_at) LOOP
                IF opening_at[o] = e AND opening_by[o] > h.opened THEN
                    h.opened := opening_by[o];
                    said_by := CASE h.opened WHEN 2 THEN 'user' ELSE 'assistant' END;
                    UPDATE threadline.session t
                    SET    preview = opening[o], preview_seq = h.head, preview_role = said_by
                    WHERE  t.tree = the_tree AND t.session = the_session;
                END IF;
            END LOOP;
        END LOOP;
        e := e + counts[op];
    END LOOP;

    FOR s IN 1 .. cardinality(spent_op) LOOP
        IF answer[spent_op[s] * 3 + 3] = 1 THEN
            PERFORM threadline.charge(the_tree, the_session, h.realm, spent_id[s], spent_at[s], spent_model[s],
                                      spent_agent[s], spent_counts[s * 5 - 4:s * 5], spent_cost[s], spent_given[s]);
        END IF;
    END LOOP;

    h.updated_at := greatest(latest, h.updated_at + 1);
    h.late := threadline.late(h.updated_at);
    UPDATE threadline.head t
    SET    opened = h.opened, updated_at = h.updated_at, head = h.head, chain = h.chain, shown = h.shown,
           total = h.total, open = h.open, asked = h.asked, pending = h.pending, messages = h.messages,
           tokens = h.tokens, late = h.late,
           seal = threadline.head_seal(the_tree, the_session, h.realm, h.log, h.status, h.opened, h.updated_at)
    WHERE  t.tree = the_tree AND t.session = the_session;
    answer[3] := h.opened;
    RETURN answer;
END
$$;

-- `append` is the common case of `write`, and costs half of it: one entry without tool calls or results, in a session that
-- has its opening words. The UPDATE waits for the session's other writers and then sees what they left; with a key or a
-- lease the row is locked first. Where there is nothing to update, or the key is known, `write` says why.
--
-- A key is not looked up where only the own log can hold it, but inserted, and found known if that fails: a lookup in a
-- partitioned table is planned anew every time, and costs more than all the rest.

CREATE OR REPLACE FUNCTION threadline.append(
    the_tree     bytea,
    the_session  bigint,
    the_expect   bigint,
    the_lease    bigint,
    durable      boolean,
    the_key      bytea,
    the_identity bytea,
    the_moment   bigint,
    the_kind     text,
    the_time     bigint,
    the_size     bigint,
    the_voice    bigint,
    the_digest   bytea,
    the_usage    bytea,
    the_body     bytea
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    its_log      bigint;
    its_head     bigint;
    its_chain    bytea;
    its_view     bigint;
    its_shown    bigint;
    its_total    bigint;
    its_open     bigint;
    its_asked    bigint;
    its_lease    bytea;
    alone        boolean;
    seen         bigint := CASE WHEN the_voice > 0 THEN 1 ELSE 0 END;
    fits         boolean := the_moment >= threadline.clock() - 10000000;    -- or it may be late by the time it is written
    setting      text;
BEGIN
    IF NOT durable THEN
        setting := set_config('synchronous_commit', 'off', true);
    ELSIF current_setting('synchronous_commit') = 'off' THEN
        setting := set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('lock_timeout') = '0' THEN
        setting := set_config('lock_timeout', '30000', true);
    END IF;

    IF fits AND (the_key IS NOT NULL OR the_lease IS NOT NULL) THEN
        SELECT t.log, t.head, t.lease INTO its_log, its_head, its_lease
        FROM   threadline.head t
        WHERE  t.tree = the_tree AND t.session = the_session AND t.status = 0 AND t.opened = 2
        FOR UPDATE;
        fits := FOUND AND (the_expect IS NULL OR its_head = the_expect)
                AND (its_lease IS NULL AND the_lease IS NULL OR threadline.may_write(its_lease, the_lease));
        IF fits AND the_key IS NOT NULL THEN
            -- A key can only be known in its own log, as it is, where the session reads no other and nothing is redacted.
            SELECT l.redacted = 0 AND NOT EXISTS (SELECT 1 FROM threadline.share s
                                                  WHERE  s.tree = the_tree AND s.session = the_session
                                                  AND    s.log <> its_log)
            INTO   alone
            FROM   threadline.log l
            WHERE  l.tree = the_tree AND l.log = its_log;
            IF NOT alone THEN
                PERFORM 1
                FROM   threadline.share s
                JOIN   threadline.key t ON t.tree = s.tree AND t.log = s.log
                                       AND t.key IN (the_key, threadline.hidden(the_key))
                                       AND t.seq >= s.first AND t.seq + t.count - 1 <= s.last
                WHERE  s.tree = the_tree AND t.tree = the_tree AND s.session = the_session;
                fits := NOT FOUND;
            END IF;
            IF fits THEN
                INSERT INTO threadline.key (tree, log, key, seq, count, identity, seal)
                VALUES (the_tree, its_log, the_key, its_head + 1, 1, the_identity,
                        threadline.key_seal(the_tree, its_log, the_key, its_head + 1, 1, the_identity))
                ON CONFLICT DO NOTHING;
                fits := FOUND;
            END IF;
        END IF;
    END IF;

    IF fits THEN
        UPDATE threadline.head t
        SET    updated_at = greatest(the_moment, t.updated_at + 1),
               head = t.head + 1,
               chain = substr(sha256(t.chain || int8send(t.head + 1) || the_digest), 1, 16),
               shown = t.shown + seen,
               messages = t.messages + seen,
               total = t.total + seen * the_size,
               tokens = t.tokens + seen * the_size,
               asked = CASE the_voice WHEN 2 THEN t.head + 1 WHEN 3 THEN 0 ELSE t.asked END,
               late = NULL,
               seal = threadline.head_seal(t.tree, t.session, t.realm, t.log, t.status, t.opened,
                                           greatest(the_moment, t.updated_at + 1))
        WHERE  t.tree = the_tree AND t.session = the_session AND t.status = 0 AND t.opened = 2
        AND    (the_expect IS NULL OR t.head = the_expect)
        AND    (t.lease IS NULL OR its_lease IS NOT NULL)    -- which was looked at, above
        RETURNING t.log, t.head, t.chain, t.view, t.shown, t.total, t.open, t.asked
        INTO its_log, its_head, its_chain, its_view, its_shown, its_total, its_open, its_asked;
        fits := FOUND;
    END IF;
    IF NOT fits THEN
        RETURN threadline.write(
            the_tree, the_session, the_expect, the_lease, durable, ARRAY[the_key], ARRAY[the_identity], ARRAY[1],
            ARRAY[the_moment], ARRAY[the_kind], ARRAY[the_time], ARRAY[the_size], ARRAY[the_voice], ARRAY[the_digest], ARRAY[the_usage],
            ARRAY[the_body], '{}', '{}', '{}', '{}', '{}', '{}');
    END IF;

    INSERT INTO threadline.entry
        (tree, log, seq, at, tokens, view, shown, total, open, asked, voice, kind, digest, chain, key, usage, body)
    VALUES (the_tree, its_log, its_head, the_time, the_size, its_view, its_shown, its_total, its_open, its_asked,
            the_voice, the_kind, the_digest, its_chain, the_key, the_usage, the_body);
    RETURN ARRAY[0, its_head - 1, 2, its_head, 1, 1];
END
$$;

-- `charge` counts a new request. Its number comes from the clock: nobody hands numbers out, and those of one session
-- still tell their order. A request of the same id that somebody else of the tree records at the same moment undoes the
-- transaction; run again, it knows that request.

CREATE OR REPLACE FUNCTION threadline.charge(
    the_tree     bytea,
    the_session  bigint,
    the_realm    bytea,
    the_id       bytea,
    the_time     bigint,
    the_model    bytea,
    the_agent    bytea,
    counts       bigint[],
    the_cost     bigint,
    the_given    bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    number       bigint;
BEGIN
    LOOP
        number := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 4096 + floor(random() * 4096)::bigint;
        INSERT INTO threadline.request
            (tree, request, realm, session, id, at, model, agent, input, output, cache_read, cache_write, reasoning,
             cost, given, seal)
        VALUES (the_tree, number, the_realm, the_session, the_id, the_time, the_model, the_agent,
                counts[1], counts[2], counts[3], counts[4], counts[5], the_cost, the_given,
                threadline.request_seal(the_tree, number, the_realm, the_id, the_time, the_model, the_agent, counts,
                                        the_cost, the_given))
        ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        PERFORM 1 FROM threadline.request t WHERE t.tree = the_tree AND t.id = the_id;
        IF FOUND THEN
            RAISE serialization_failure USING MESSAGE = 'a request of the same id was recorded meanwhile';
        END IF;
    END LOOP;
    PERFORM threadline.add_spent(the_tree, the_session, the_realm, the_time, the_model, the_agent, counts, the_cost, 1);
END
$$;

-- `add_spent` lets the sum that a request belongs to have it (`sign` 1), or no longer have it (-1).

CREATE OR REPLACE FUNCTION threadline.add_spent(
    the_tree     bytea,
    the_session  bigint,
    the_realm    bytea,
    the_time     bigint,
    the_model    bytea,
    the_agent    bytea,
    counts       bigint[],
    the_cost     bigint,
    sign         bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    the_day      bigint := floor(the_time / 86400000000.0)::bigint;
    is_priced    bigint := CASE WHEN the_cost IS NULL THEN 0 ELSE 1 END;
    the_names    bytea := threadline.names(the_model, the_agent);
BEGIN
    INSERT INTO threadline.spent AS t
        (tree, session, day, priced, names, model, agent, realm, requests,
         input, output, cache_read, cache_write, reasoning, cost)
    VALUES (the_tree, the_session, the_day, is_priced, the_names, the_model, the_agent, the_realm, sign,
            sign * counts[1], sign * counts[2], sign * counts[3], sign * counts[4], sign * counts[5],
            sign * coalesce(the_cost, 0))
    ON CONFLICT (tree, session, day, priced, names) DO UPDATE
    SET    requests = t.requests + excluded.requests, input = t.input + excluded.input,
           output = t.output + excluded.output, cache_read = t.cache_read + excluded.cache_read,
           cache_write = t.cache_write + excluded.cache_write, reasoning = t.reasoning + excluded.reasoning,
           cost = t.cost + excluded.cost;
    IF sign < 0 THEN
        DELETE FROM threadline.spent t
        WHERE  t.tree = the_tree AND t.session = the_session AND t.day = the_day AND t.priced = is_priced
        AND    t.names = the_names AND t.requests = 0;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION threadline.names(model bytea, agent bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT substr(sha256(int8send(length(model)) || model || agent), 1, 16) $$;

-- A seal is the first 8 bytes of the SHA-256 of columns one after the other: a number as 8 bytes with the highest first,
-- bytes as they are, or after their length where that is not fixed.

CREATE OR REPLACE FUNCTION threadline.head_seal(
    tree bytea, session bigint, realm bytea, log bigint, status bigint, opened bigint, updated_at bigint
) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT substr(sha256(tree || int8send(session) || realm || int8send(log) || int8send(status) || int8send(opened)
                           || int8send(updated_at)), 1, 8) $$;

CREATE OR REPLACE FUNCTION threadline.hidden(key bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT '\xff'::bytea || substr(sha256(key), 1, 16) $$;

CREATE OR REPLACE FUNCTION threadline.key_seal(
    tree bytea, log bigint, key bytea, seq bigint, count bigint, identity bytea
) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT substr(sha256(tree || int8send(log) || int8send(length(key)) || key || int8send(seq) || int8send(count)
                           || identity), 1, 8) $$;

-- The time here, by which leases end and followers look.

CREATE OR REPLACE FUNCTION threadline.clock() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- `updated_at` is what a caller said. Where that is more than half a minute ago, followers would not find the change by
-- it, so the head row says when it really was. STABLE although it asks the clock: in an UPDATE of a distributed table
-- Citus takes no VOLATILE function.

CREATE OR REPLACE FUNCTION threadline.late(updated_at bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN updated_at < threadline.clock() - 30000000 THEN threadline.clock() END $$;

-- Whether a write with that token (NULL: with none) may go on beside the last lease of the session, as `core/holds.py`
-- says. False as well where the lease cannot be read: then Python says so.

CREATE OR REPLACE FUNCTION threadline.may_write(lease bytea, token bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    held         bytea := substr(lease, 9);
    said         text[];
    lives        boolean;
BEGIN
    IF lease IS NULL THEN
        RETURN token IS NULL;
    END IF;
    IF substr(sha256(convert_to(length(held) || ':', 'UTF8') || held), 1, 8) <> substr(lease, 1, 8) THEN
        RETURN false;
    END IF;
    said := string_to_array(encode(held, 'escape'), '|');
    lives := threadline.clock() < said[2]::bigint;
    RETURN CASE WHEN token IS NULL THEN NOT lives ELSE lives AND said[1]::bigint = token END;
END
$$;

CREATE OR REPLACE FUNCTION threadline.request_seal(
    tree bytea, request bigint, realm bytea, id bytea, at bigint, model bytea, agent bytea, counts bigint[], cost bigint,
    given bigint
) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT substr(sha256(tree || int8send(request) || realm
                           || int8send(coalesce(length(id), -1)) || coalesce(id, ''::bytea) || int8send(at)
                           || int8send(length(model)) || model || int8send(length(agent)) || agent
                           || int8send(counts[1]) || int8send(counts[2]) || int8send(counts[3]) || int8send(counts[4])
                           || int8send(counts[5]) || int8send(CASE WHEN cost IS NULL THEN 0 ELSE 1 END)
                           || int8send(coalesce(cost, 0)) || int8send(given)), 1, 8) $$;
