-- memory_lock: wait for the other writers of a memory; by which rules its words were made
SELECT version FROM threadline.memory WHERE tree = %s FOR UPDATE

-- memory_version: by which rules its words were made
SELECT version FROM threadline.memory WHERE tree = %s

-- memory_reword: what a lasting node is found by, by other rules than before
UPDATE threadline.node SET words = array_to_tsvector(%s::text[]) WHERE tree = %s AND addr = %s AND scope = ''

-- memory_reworded: all of them are
UPDATE threadline.memory SET version = %s WHERE tree = %s

-- memory_begin: a memory begins
INSERT INTO threadline.memory (tree, realm, namespace, project, seal, version) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (tree) DO NOTHING

-- memory_put_node: a node that is new, or is there and has changed beside its content
INSERT INTO threadline.node (tree, scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session,
                             agent, domain, inputs, about, content, seal, words)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, array_to_tsvector(%s::text[]))
ON CONFLICT (tree, addr, scope) DO UPDATE
SET    active = excluded.active, touched_at = excluded.touched_at, expires_at = excluded.expires_at,
       promoted_at = excluded.promoted_at, session = excluded.session, agent = excluded.agent, about = excluded.about,
       seal = excluded.seal

-- memory_put_input: what a node was made of
INSERT INTO threadline.node_input (tree, scope, addr, input) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING

-- memory_put_member: a chain holds a node
INSERT INTO threadline.chain_member (tree, chain, addr) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING

-- memory_put_event: something was done
INSERT INTO threadline.memory_event (tree, number, what, session, agent, addrs, detail, seal)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING

-- memory_put_working: a working memory that is new, or has changed
INSERT INTO threadline.working (tree, realm, scope, session, agent, started_at, touched_at, ended_at, turns, folded, seal)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (tree, scope) DO UPDATE
SET    touched_at = excluded.touched_at, ended_at = excluded.ended_at, turns = excluded.turns, folded = excluded.folded,
       started_at = excluded.started_at, seal = excluded.seal

-- memory_workings_of: the working memories of a session
SELECT scope, session, agent, started_at, touched_at, ended_at, turns, folded, seal
FROM   threadline.working
WHERE  tree = %s AND realm = %s AND session = %s
ORDER BY started_at, scope

-- memory_working_anywhere: where a session has working memories
SELECT tree, scope FROM threadline.working WHERE realm = %s AND session = %s ORDER BY tree, scope

-- memory_places: all memories
SELECT namespace, project FROM threadline.memory WHERE tree > %s ORDER BY tree LIMIT 100

-- memory_drop_members: the places in its chains go
DELETE FROM threadline.chain_member m
USING  threadline.chain c
WHERE  m.tree = %s AND c.scope = %s AND c.tree = m.tree AND m.chain = c.chain

-- memory_holding: lasting nodes that hold words, the newest first
SELECT addr
FROM   threadline.node
WHERE  tree = %s AND words @@ %s::tsquery
ORDER BY created_at DESC, addr
LIMIT  %s

-- memory_holding_active: the active ones
SELECT addr
FROM   threadline.node
WHERE  tree = %s AND words @@ %s::tsquery AND active = 1
ORDER BY created_at DESC, addr
LIMIT  %s

-- memory_those: active lasting nodes by their addresses
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   threadline.node
WHERE  tree = %s AND addr = ANY(%s::bytea[]) AND scope = '' AND active = 1

-- memory_tail: active lasting nodes, the newest first, where words of other rules do not find them
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   threadline.node
WHERE  tree = %s AND scope = '' AND active = 1
ORDER BY created_at DESC, addr
LIMIT  %s

-- verify_memories: every memory
SELECT tree, realm, namespace, project, seal, version FROM threadline.memory

-- verify_count: how many nodes a memory has, and the sum of their seals
SELECT nodes, total FROM threadline.memory WHERE tree = %s

-- verify_nodes: the nodes of a memory, and what recall finds them by
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal, tsvector_to_array(words)
FROM   threadline.node
WHERE  tree = %s

-- verify_workings: the working memories of a memory, and their realm
SELECT realm, scope, session, agent, started_at, touched_at, ended_at, turns, folded, seal
FROM   threadline.working
WHERE  tree = %s

-- verify_memory_strays: rows that belong to no memory
SELECT n.n, i.n, c.n, m.n, w.n, e.n
FROM   (SELECT count(*) AS n FROM threadline.node x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.memory m WHERE m.tree = x.tree)) n,
       (SELECT count(*) AS n FROM threadline.node_input x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.memory m WHERE m.tree = x.tree)) i,
       (SELECT count(*) AS n FROM threadline.chain x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.memory m WHERE m.tree = x.tree)) c,
       (SELECT count(*) AS n FROM threadline.chain_member x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.memory m WHERE m.tree = x.tree)) m,
       (SELECT count(*) AS n FROM threadline.working x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.memory m WHERE m.tree = x.tree)) w,
       (SELECT count(*) AS n FROM threadline.memory_event x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.memory m WHERE m.tree = x.tree)) e

-- memory_node: one node in one scope
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   threadline.node
WHERE  tree = %s AND addr = %s AND scope = %s

-- memory_nodes_between: nodes by a range of addresses, of all scopes
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   threadline.node
WHERE  tree = %s AND addr BETWEEN %s AND %s
ORDER BY addr, scope
LIMIT  %s

-- memory_page: nodes of all scopes, in the order of their addresses
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   threadline.node
WHERE  tree = %s AND (addr, scope) > (%s, %s)
ORDER BY addr, scope
LIMIT  %s

-- memory_nodes: the nodes of a scope, of one kind: active or not
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   threadline.node
WHERE  tree = %s AND scope = %s AND active = %s
ORDER BY created_at, addr

-- memory_all_nodes: all nodes of a scope
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   threadline.node
WHERE  tree = %s AND scope = %s
ORDER BY created_at, addr

-- memory_origins: lasting nodes that come from no other, and roots
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   threadline.node
WHERE  tree = %s AND scope = '' AND (inputs = '' OR type = 'root')
ORDER BY created_at, addr

-- memory_consumers: the nodes that were made of one
SELECT n.scope, n.addr, n.type, n.active, n.created_at, n.touched_at, n.expires_at, n.promoted_at, n.session, n.agent,
       n.domain, n.inputs, n.about, n.content, n.seal
FROM   threadline.node_input i
JOIN   threadline.node n ON n.tree = i.tree AND n.addr = i.addr AND n.scope = i.scope
WHERE  i.tree = %s AND i.input = %s
ORDER BY n.created_at, n.addr, n.scope

-- memory_chain: a chain by its id
SELECT scope, chain, name, status, created_at, extended_at, session, agent, domain, members, about, seal
FROM   threadline.chain
WHERE  tree = %s AND chain = %s

-- memory_chains: all chains
SELECT scope, chain, name, status, created_at, extended_at, session, agent, domain, members, about, seal
FROM   threadline.chain
WHERE  tree = %s
ORDER BY created_at, chain

-- memory_chains_named: chains by their name
SELECT scope, chain, name, status, created_at, extended_at, session, agent, domain, members, about, seal
FROM   threadline.chain
WHERE  tree = %s AND name = %s
ORDER BY created_at, chain

-- memory_chains_with: the chains that hold a node
SELECT c.scope, c.chain, c.name, c.status, c.created_at, c.extended_at, c.session, c.agent, c.domain, c.members, c.about, c.seal
FROM   threadline.chain_member m
JOIN   threadline.chain c ON c.tree = m.tree AND c.chain = m.chain
WHERE  m.tree = %s AND m.addr = %s
ORDER BY c.created_at, c.chain

-- memory_put_chain: a chain that is new, or has changed
INSERT INTO threadline.chain (tree, scope, chain, name, status, created_at, extended_at, session, agent, domain, members,
                              about, seal)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (tree, chain) DO UPDATE
SET    scope = excluded.scope, name = excluded.name, status = excluded.status, extended_at = excluded.extended_at,
       session = excluded.session, agent = excluded.agent, domain = excluded.domain, members = excluded.members,
       about = excluded.about, seal = excluded.seal

-- memory_working: a working memory
SELECT scope, session, agent, started_at, touched_at, ended_at, turns, folded, seal
FROM   threadline.working
WHERE  tree = %s AND scope = %s

-- memory_workings: all working memories, the oldest first
SELECT scope, session, agent, started_at, touched_at, ended_at, turns, folded, seal
FROM   threadline.working
WHERE  tree = %s
ORDER BY started_at, scope

-- memory_events: what was done, the newest first
SELECT number, what, session, agent, addrs, detail, seal
FROM   threadline.memory_event
WHERE  tree = %s AND number < %s
ORDER BY number DESC
LIMIT  %s

-- memory_last_event: the number of the newest
SELECT coalesce(max(number), 0) FROM threadline.memory_event WHERE tree = %s

-- memory_untell: what a session did is told no more
DELETE FROM threadline.memory_event WHERE tree = %s AND session = %s

-- memory_count: so many nodes more or less, and so much to be added to the sum of their seals
UPDATE threadline.memory
SET    nodes = nodes + %s, total = ((total & 4611686018427387903) + %s) & 4611686018427387903
WHERE  tree = %s

-- memory_marks: the seals of all nodes of a scope
SELECT seal FROM threadline.node WHERE tree = %s AND scope = %s

-- memory_drop_nodes: the nodes of a scope go
DELETE FROM threadline.node WHERE tree = %s AND scope = %s

-- memory_drop_inputs: and what they were made of
DELETE FROM threadline.node_input WHERE tree = %s AND scope = %s

-- memory_drop_chains: and its chains
DELETE FROM threadline.chain WHERE tree = %s AND scope = %s

-- memory_drop_working: and the working memory itself
DELETE FROM threadline.working WHERE tree = %s AND scope = %s

-- verify_node_inputs: what the nodes of a memory were made of, by the index
SELECT scope, addr, input FROM threadline.node_input WHERE tree = %s

-- verify_chains: the chains of a memory
SELECT scope, chain, name, status, created_at, extended_at, session, agent, domain, members, about, seal
FROM   threadline.chain
WHERE  tree = %s

-- verify_chain_members: which chains of a memory hold a node, by the index
SELECT chain, addr FROM threadline.chain_member WHERE tree = %s

-- verify_memory_events: everything that was done in a memory
SELECT number, what, session, agent, addrs, detail, seal FROM threadline.memory_event WHERE tree = %s
