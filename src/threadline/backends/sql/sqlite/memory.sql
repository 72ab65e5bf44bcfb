-- memory_there: whether a memory has begun
SELECT 1 FROM memory WHERE tree = ?

-- memory_begin: a memory begins
INSERT INTO memory (tree, namespace, project, seal) VALUES (?, ?, ?, ?)

-- memory_node: one node in one scope
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   node
WHERE  tree = ? AND addr = ? AND scope = ?

-- memory_nodes_between: nodes by a range of addresses, of all scopes
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   node
WHERE  tree = ? AND addr BETWEEN ? AND ?
ORDER BY addr, scope
LIMIT  ?

-- memory_page: nodes of all scopes, in the order of their addresses
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   node
WHERE  tree = ? AND (addr, scope) > (?, ?)
ORDER BY addr, scope
LIMIT  ?

-- memory_nodes: the nodes of a scope, of one kind: active or not
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   node
WHERE  tree = ? AND scope = ? AND active = ?
ORDER BY created_at, addr

-- memory_all_nodes: all nodes of a scope
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   node
WHERE  tree = ? AND scope = ?
ORDER BY created_at, addr

-- memory_origins: lasting nodes that come from no other, and roots
SELECT scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs, about,
       content, seal
FROM   node
WHERE  tree = ? AND scope = x'' AND (inputs = x'' OR type = x'726f6f74')
ORDER BY created_at, addr

-- memory_consumers: the nodes that were made of one
SELECT n.scope, n.addr, n.type, n.active, n.created_at, n.touched_at, n.expires_at, n.promoted_at, n.session, n.agent,
       n.domain, n.inputs, n.about, n.content, n.seal
FROM   node_input i
JOIN   node n ON n.tree = i.tree AND n.addr = i.addr AND n.scope = i.scope
WHERE  i.tree = ? AND i.input = ?
ORDER BY n.created_at, n.addr, n.scope

-- memory_put_node: a node that is new, or is there and has changed beside its content
INSERT INTO node (tree, scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain,
                  inputs, about, content, seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tree, addr, scope) DO UPDATE
SET    active = excluded.active, touched_at = excluded.touched_at, expires_at = excluded.expires_at,
       promoted_at = excluded.promoted_at, session = excluded.session, agent = excluded.agent, about = excluded.about,
       seal = excluded.seal

-- memory_put_input: what a node was made of
INSERT OR IGNORE INTO node_input (tree, scope, addr, input) VALUES (?, ?, ?, ?)

-- memory_chain: a chain by its id
SELECT scope, chain, name, status, created_at, extended_at, session, agent, domain, members, about, seal
FROM   chain
WHERE  tree = ? AND chain = ?

-- memory_chains: all chains
SELECT scope, chain, name, status, created_at, extended_at, session, agent, domain, members, about, seal
FROM   chain
WHERE  tree = ?
ORDER BY created_at, chain

-- memory_chains_named: chains by their name
SELECT scope, chain, name, status, created_at, extended_at, session, agent, domain, members, about, seal
FROM   chain
WHERE  tree = ? AND name = ?
ORDER BY created_at, chain

-- memory_chains_with: the chains that hold a node
SELECT c.scope, c.chain, c.name, c.status, c.created_at, c.extended_at, c.session, c.agent, c.domain, c.members, c.about, c.seal
FROM   chain_member m
JOIN   chain c ON c.tree = m.tree AND c.chain = m.chain
WHERE  m.tree = ? AND m.addr = ?
ORDER BY c.created_at, c.chain

-- memory_put_chain: a chain that is new, or has changed
INSERT INTO chain (tree, scope, chain, name, status, created_at, extended_at, session, agent, domain, members, about, seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tree, chain) DO UPDATE
SET    scope = excluded.scope, name = excluded.name, status = excluded.status, extended_at = excluded.extended_at,
       session = excluded.session, agent = excluded.agent, domain = excluded.domain, members = excluded.members,
       about = excluded.about, seal = excluded.seal

-- memory_put_member: a chain holds a node
INSERT OR IGNORE INTO chain_member (tree, chain, addr) VALUES (?, ?, ?)

-- memory_working: a working memory
SELECT scope, session, agent, started_at, touched_at, ended_at, turns, folded, seal FROM working WHERE tree = ? AND scope = ?

-- memory_workings: all working memories, the oldest first
SELECT scope, session, agent, started_at, touched_at, ended_at, turns, folded, seal
FROM   working
WHERE  tree = ?
ORDER BY started_at, scope

-- memory_workings_of: the working memories of a session
SELECT scope, session, agent, started_at, touched_at, ended_at, turns, folded, seal
FROM   working
WHERE  tree = ? AND namespace = ? AND session = ?
ORDER BY started_at, scope

-- memory_put_working: a working memory that is new, or has changed
INSERT INTO working (tree, namespace, scope, session, agent, started_at, touched_at, ended_at, turns, folded, seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tree, scope) DO UPDATE
SET    touched_at = excluded.touched_at, ended_at = excluded.ended_at, turns = excluded.turns, folded = excluded.folded,
       started_at = excluded.started_at, seal = excluded.seal

-- memory_events: what was done, the newest first
SELECT number, what, session, agent, addrs, detail, seal
FROM   memory_event
WHERE  tree = ? AND number < ?
ORDER BY number DESC
LIMIT  ?

-- memory_last_event: the number of the newest
SELECT coalesce(max(number), 0) FROM memory_event WHERE tree = ?

-- memory_put_event: something was done
INSERT OR IGNORE INTO memory_event (tree, number, what, session, agent, addrs, detail, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- memory_untell: what a session did is told no more
DELETE FROM memory_event WHERE tree = ? AND session = ?

-- memory_count: so many nodes more or less, and so much to be added to the sum of their seals
UPDATE memory SET nodes = nodes + ?, total = ((total & 0x3fffffffffffffff) + ?) & 0x3fffffffffffffff WHERE tree = ?

-- memory_marks: the seals of all nodes of a scope
SELECT seal FROM node WHERE tree = ? AND scope = ?

-- memory_drop_nodes: the nodes of a scope go
DELETE FROM node WHERE tree = ? AND scope = ?

-- memory_unindex_gone: the numbers of the last nodes, if those are gone, are given again: what gets one is not in the index
UPDATE node_indexed SET upto = min(upto, (SELECT coalesce(max(node), 0) FROM node))

-- memory_drop_inputs: and what they were made of
DELETE FROM node_input WHERE tree = ? AND scope = ?

-- memory_drop_members: the places in its chains go
DELETE FROM chain_member WHERE tree = ?1 AND chain IN (SELECT chain FROM chain WHERE tree = ?1 AND scope = ?2)

-- memory_drop_chains: and its chains
DELETE FROM chain WHERE tree = ? AND scope = ?

-- memory_drop_working: and the working memory itself
DELETE FROM working WHERE tree = ? AND scope = ?

-- memory_working_anywhere: where a session has working memories
SELECT tree, scope FROM working WHERE namespace = ? AND session = ?

-- namespace_of: the namespace of a session
SELECT namespace FROM session WHERE session = ?

-- memory_places: all memories
SELECT namespace, project FROM memory WHERE tree > ? ORDER BY tree LIMIT 100

-- memory_lag: how far the index of words goes, by which rules it was made, and the last node
SELECT upto, version, (SELECT coalesce(max(node), 0) FROM node) FROM node_indexed

-- memory_unindexed: lasting nodes that are not in the index of words
SELECT node, tree, domain, content FROM node WHERE node > ? AND scope = x'' ORDER BY node LIMIT ?

-- memory_index: the words of a node
INSERT OR REPLACE INTO node_text (rowid, words) VALUES (?, ?)

-- memory_indexed: the index goes so far, by these rules
UPDATE node_indexed SET upto = ?, version = ?

-- memory_unindex: the index of words is emptied
INSERT INTO node_text (node_text) VALUES ('delete-all')

-- memory_holding: lasting nodes that hold words, the newest first; a tree's words begin with its name
SELECT rowid FROM node_text t WHERE ?1 IS NOT NULL AND t.node_text MATCH ?2 ORDER BY rowid DESC LIMIT ?3

-- memory_holding_active: the active ones
SELECT n.node
FROM   node_text t
CROSS JOIN node n ON n.node = t.rowid
WHERE  n.tree = ?1 AND t.node_text MATCH ?2 AND n.scope = x'' AND n.active = 1
ORDER BY t.rowid DESC
LIMIT  ?3

-- memory_those: active nodes by their numbers
SELECT n.scope, n.addr, n.type, n.active, n.created_at, n.touched_at, n.expires_at, n.promoted_at, n.session, n.agent,
       n.domain, n.inputs, n.about, n.content, n.seal
FROM   json_each(?2) few
CROSS JOIN node n ON n.node = few.value
WHERE  n.tree = ?1 AND n.active = 1

-- memory_tail: active lasting nodes of a memory that are not in the index of words
SELECT n.scope, n.addr, n.type, n.active, n.created_at, n.touched_at, n.expires_at, n.promoted_at, n.session, n.agent,
       n.domain, n.inputs, n.about, n.content, n.seal
FROM   node n
WHERE  n.node > (SELECT upto FROM node_indexed) AND +n.tree = ? AND n.scope = x'' AND n.active = 1
ORDER BY n.node DESC
LIMIT  ?

-- verify_memories: every memory
SELECT tree, namespace, project, seal, nodes, total FROM memory

-- verify_nodes: every node
SELECT node, tree, scope, addr, type, active, created_at, touched_at, expires_at, promoted_at, session, agent, domain, inputs,
       about, content, seal
FROM   node

-- verify_node_inputs: what every node was made of, by the index
SELECT tree, scope, addr, input FROM node_input

-- verify_chains: every chain
SELECT tree, scope, chain, name, status, created_at, extended_at, session, agent, domain, members, about, seal FROM chain

-- verify_chain_members: which chains hold a node, by the index
SELECT tree, chain, addr FROM chain_member

-- verify_workings: every working memory, and its namespace
SELECT tree, namespace, scope, session, agent, started_at, touched_at, ended_at, turns, folded, seal FROM working

-- verify_memory_events: everything that was done
SELECT tree, number, what, session, agent, addrs, detail, seal FROM memory_event

-- verify_indexed: how far the index of words goes, and by which rules it was made
SELECT upto, version FROM node_indexed
