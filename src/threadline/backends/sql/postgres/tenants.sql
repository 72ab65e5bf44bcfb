-- Row-level security: each database role sees the namespaces that it was admitted to, and no others, whatever SQL it
-- runs. The owner of the tables sees everything. Optional: without it, a namespace is a promise of the program.
--
--     SELECT threadline.admit('acme_app', 'acme');

CREATE TABLE IF NOT EXISTS threadline.tenant (
    role        name    NOT NULL,
    realm       bytea   NOT NULL,
    PRIMARY KEY (role, realm)
);

-- The short form of a namespace that stands in the tables.
CREATE OR REPLACE FUNCTION threadline.realm(namespace text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN substr(sha256('9:namespace'::bytea || '\x00'::bytea
                     || convert_to(length(convert_to(namespace, 'UTF8')) || ':' || namespace, 'UTF8')), 1, 16);

-- Let a role in: it may use the store within this namespace. Not the partitions: policies stand on the whole tables.
CREATE OR REPLACE FUNCTION threadline.admit(the_role name, namespace text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO threadline.tenant VALUES (the_role, threadline.realm(namespace)) ON CONFLICT DO NOTHING;
    EXECUTE format('GRANT USAGE ON SCHEMA threadline TO %I', the_role);
    EXECUTE format('GRANT SELECT ON threadline.version TO %I', the_role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON threadline.name, threadline.log, threadline.session,
                    threadline.tag, threadline.head, threadline.share, threadline.entry, threadline.key,
                    threadline.inbox, threadline.draft, threadline.chunk, threadline.blob, threadline.blob_use,
                    threadline.request, threadline.spent, threadline.search, threadline.search_log,
                    threadline.search_state, threadline.memory, threadline.node, threadline.node_input,
                    threadline.chain, threadline.chain_member, threadline.working, threadline.memory_event TO %I', the_role);
END
$$;

-- Who asks is who logged in: no setting that a session could change for itself.
CREATE OR REPLACE FUNCTION threadline.admitted(the_realm bytea) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ''
AS $$ SELECT EXISTS (SELECT 1 FROM threadline.tenant t WHERE t.role = session_user AND t.realm = the_realm) $$;

DO $$
DECLARE
    policed text;
BEGIN
    FOREACH policed IN ARRAY ARRAY['name', 'session', 'head', 'tag', 'request', 'spent', 'search', 'search_log',
                                  'search_state', 'memory', 'working'] LOOP
        EXECUTE format('ALTER TABLE threadline.%I ENABLE ROW LEVEL SECURITY', policed);
        EXECUTE format('DROP POLICY IF EXISTS tenants ON threadline.%I', policed);
        EXECUTE format('CREATE POLICY tenants ON threadline.%I USING (threadline.admitted(realm))', policed);
    END LOOP;
    -- What hangs on a tree is seen by whoever sees a session of it.
    FOREACH policed IN ARRAY ARRAY['share', 'entry', 'key', 'log', 'inbox', 'draft', 'chunk', 'blob', 'blob_use'] LOOP
        EXECUTE format('ALTER TABLE threadline.%I ENABLE ROW LEVEL SECURITY', policed);
        EXECUTE format('DROP POLICY IF EXISTS tenants ON threadline.%I', policed);
        EXECUTE format('CREATE POLICY tenants ON threadline.%I USING (EXISTS
                        (SELECT 1 FROM threadline.session s WHERE s.tree = %I.tree))', policed, policed);
    END LOOP;
    -- And what hangs on a memory, by whoever sees that.
    FOREACH policed IN ARRAY ARRAY['node', 'node_input', 'chain', 'chain_member', 'memory_event'] LOOP
        EXECUTE format('ALTER TABLE threadline.%I ENABLE ROW LEVEL SECURITY', policed);
        EXECUTE format('DROP POLICY IF EXISTS tenants ON threadline.%I', policed);
        EXECUTE format('CREATE POLICY tenants ON threadline.%I USING (EXISTS
                        (SELECT 1 FROM threadline.memory m WHERE m.tree = %I.tree))', policed, policed);
    END LOOP;
    -- A place is closed before any session stands there.
    DROP POLICY IF EXISTS closing ON threadline.log;
    CREATE POLICY closing ON threadline.log FOR INSERT WITH CHECK (salt = '');
END
$$;
