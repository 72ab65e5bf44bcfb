-- threadline on PostgreSQL, schema version 1.
--
-- The same log as on SQLite: a session is an append-only log of entries, nothing in `entry` is ever changed, but that an
-- entry may lose its content for good and keep its place (`redact`), and the columns from `voice` on are the fold right
-- after the entry. What is different here is what lets it spread.
--
-- A *tree* is a root session with its forks and sub-agents; its id is 16 random bytes. It stands first in every key, and
-- no sequence, unique constraint or foreign key reaches across trees. So all that one operation touches lies together:
-- in one partition here, on one node where the tables are distributed. Numbers of sessions and logs are 63 bits of a
-- digest of something random: nobody hands them out.
--
-- What must be unique across trees is reserved in `name`, which is written first and in a transaction of its own: the
-- id of a session, then its key. A reservation without a session is a session that does not exist (yet): whoever
-- writes to it next uses the reserved place. So nothing is ever to be cleaned up, and no transaction spans two shards.
--
-- Text that callers choose is kept as UTF-8 bytes (with lone surrogates as if they were characters), so that every
-- string that Python can hold is stored, compared and returned exactly; text columns could not hold a NUL. An index
-- cannot hold everything that a caller may choose: where it might be too long, its digest stands in the index.
-- `realm` is that of a namespace. Times are microseconds since 1970, UTC. `seal` is a short digest over the other
-- columns of its row.

CREATE SCHEMA threadline;

CREATE TABLE threadline.version (
    version     integer NOT NULL PRIMARY KEY
);

CREATE TABLE threadline.name (
    name        bytea   NOT NULL PRIMARY KEY,   -- digest of namespace and id, or of namespace and key
    tree        bytea   NOT NULL,
    session     bigint  NOT NULL,
    id          bytea   NOT NULL,               -- of the session; whoever finds it by its key needs that
    realm       bytea   NOT NULL
);

CREATE TABLE threadline.log (
    tree        bytea   NOT NULL,
    log         bigint  NOT NULL,
    salt        bytea   NOT NULL,               -- where the chain of a log without ancestors begins
    redacted    bigint  NOT NULL DEFAULT 0,     -- how many of its entries are tombstones
    PRIMARY KEY (tree, log)
);

CREATE TABLE threadline.session (
    tree        bytea   NOT NULL,
    session     bigint  NOT NULL,
    realm       bytea   NOT NULL,
    namespace   bytea   NOT NULL,
    id          bytea   NOT NULL,
    key         bytea,
    created_at  bigint  NOT NULL,
    cwd         bytea,
    agent       bytea,
    origin      bigint,                         -- the session that it was forked from
    nth         bigint  NOT NULL,               -- it is its origin's nth fork, or its parent's nth child; 0 for a root
    parent      bigint,                         -- the session that spawned it
    call_id     bytea,                          -- and the tool call that it answers there
    about       bytea   NOT NULL,               -- title, tags, meta and so on, as JSON
    seal        bytea   NOT NULL,               -- of all columns above
    preview     bytea,                          -- the opening words, and the entry and role that said them
    preview_seq bigint  NOT NULL,
    preview_role text,
    PRIMARY KEY (tree, session)
);

CREATE INDEX session_by_id      ON threadline.session (realm, id);
CREATE INDEX session_by_key     ON threadline.session (realm, key) WHERE key IS NOT NULL;
CREATE INDEX session_by_created ON threadline.session (realm, (CASE WHEN parent IS NULL THEN 0 ELSE 1 END), created_at, session);
CREATE INDEX session_by_cwd     ON threadline.session (realm, sha256(cwd))   WHERE cwd IS NOT NULL;
CREATE INDEX session_by_agent   ON threadline.session (realm, sha256(agent)) WHERE agent IS NOT NULL;
CREATE INDEX session_by_origin  ON threadline.session (tree, origin, nth)    WHERE origin IS NOT NULL;
CREATE INDEX session_by_parent  ON threadline.session (tree, parent, nth)    WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX session_by_call ON threadline.session (tree, parent, call_id) WHERE call_id IS NOT NULL;

CREATE TABLE threadline.tag (
    tree        bytea   NOT NULL,
    session     bigint  NOT NULL,
    tag         bytea   NOT NULL,
    realm       bytea   NOT NULL,
    PRIMARY KEY (tree, session, tag)
);

CREATE INDEX tag_by_tag ON threadline.tag (realm, sha256(tag));

-- Narrow, because every append writes it; the one index is what listings walk. Writers of one session wait for each
-- other on this row, and for nobody else.
CREATE TABLE threadline.head (
    tree        bytea   NOT NULL,
    session     bigint  NOT NULL,
    realm       bytea   NOT NULL,
    child       smallint NOT NULL,              -- 1 while it has a parent: listings of roots never pass by it
    log         bigint  NOT NULL,               -- its own log, where appends go
    status      bigint  NOT NULL,               -- 0 active, 1 archived, 2 trashed
    opened      bigint  NOT NULL,               -- 0 until there are opening words, 1 by the assistant, 2 by the user
    updated_at  bigint  NOT NULL,
    head        bigint  NOT NULL,
    chain       bytea   NOT NULL,
    view        bigint  NOT NULL,
    shown       bigint  NOT NULL,
    total       bigint  NOT NULL,
    open        bigint  NOT NULL,
    asked       bigint  NOT NULL,
    pending     bigint  NOT NULL,
    messages    bigint  NOT NULL,
    tokens      bigint  NOT NULL,
    seal        bytea   NOT NULL,               -- of the columns up to `updated_at` but `child`; the rest is the fold
    queued      bigint  NOT NULL DEFAULT 0,     -- messages in its inbox
    lease       bytea,                          -- its seal, then token|until|holder; NULL if there never was one
    late        bigint,                         -- when it was last written, where that is long after its `updated_at`
    PRIMARY KEY (tree, session)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX head_by_updated ON threadline.head (realm, child, updated_at, session);
CREATE INDEX head_by_late    ON threadline.head (realm, late) WHERE late IS NOT NULL;

-- Entries `first` to `last` of the session lie in `log`. Its own log comes last and has no end.
CREATE TABLE threadline.share (
    tree        bytea   NOT NULL,
    session     bigint  NOT NULL,
    first       bigint  NOT NULL,
    last        bigint  NOT NULL,
    log         bigint  NOT NULL,
    seal        bytea   NOT NULL,
    PRIMARY KEY (tree, session, first)
);

CREATE INDEX share_by_log ON threadline.share (tree, log);

CREATE TABLE threadline.entry (
    tree        bytea   NOT NULL,
    log         bigint  NOT NULL,
    seq         bigint  NOT NULL,
    at          bigint  NOT NULL,
    tokens      bigint  NOT NULL,
    view        bigint  NOT NULL,               -- the last structural entry so far
    shown       bigint  NOT NULL,               -- visible entries so far
    total       bigint  NOT NULL,               -- and their tokens
    open        bigint  NOT NULL,               -- the entry with the top of the stack of open calls
    asked       bigint  NOT NULL,               -- the user's entry that nothing has answered
    voice       smallint NOT NULL,              -- 0 silent, 1 other, 2 user, 3 assistant, 4 assistant calling
    kind        text    NOT NULL,
    digest      bytea   NOT NULL,               -- of kind, at, tokens, key, usage and body
    chain       bytea   NOT NULL,               -- H(chain of seq - 1, seq, digest)
    key         bytea,
    usage       bytea,                          -- JSON
    open_pending bigint,                        -- where this entry changed the stack of open calls, its node: how many
    open_below  bigint,                         -- are open in it and below, the entry with the node below, and of each
    open_seqs   bigint[],                       -- of its own calls the entry that made it,
    open_starts bigint[],                       -- the entry that started it (0: not started)
    open_ids    bytea[],                        -- and its id
    body        bytea   NOT NULL,               -- JSON
    PRIMARY KEY (tree, log, seq)
) PARTITION BY HASH (tree);

-- What the state and the goal were at any moment. Other entries are not in it, and cost nothing.
CREATE INDEX entry_by_kind ON threadline.entry (tree, log, kind, seq) WHERE kind IN ('state', 'goal');

-- An idempotency key names a whole call: `count` entries from `seq` on, whose content had that identity.
CREATE TABLE threadline.key (
    tree        bytea   NOT NULL,
    log         bigint  NOT NULL,
    key         bytea   NOT NULL,
    seq         bigint  NOT NULL,
    count       bigint  NOT NULL,
    identity    bytea   NOT NULL,
    seal        bytea   NOT NULL,
    PRIMARY KEY (tree, log, key)
) PARTITION BY HASH (tree);

-- Messages that wait to enter the log of a session, in the order of their numbers. Taking one appends it and removes its
-- row in one transaction; from then on the row in `key` knows its key.
CREATE TABLE threadline.inbox (
    tree        bytea   NOT NULL,
    session     bigint  NOT NULL,
    number      bigint  NOT NULL,
    at          bigint  NOT NULL,               -- when it came
    tokens      bigint  NOT NULL,
    key         bytea,
    body        bytea   NOT NULL,               -- JSON
    seal        bytea   NOT NULL,
    PRIMARY KEY (tree, session, number)
);

CREATE UNIQUE INDEX inbox_by_key ON threadline.inbox (tree, session, key) WHERE key IS NOT NULL;

-- A message that is still streaming. Its text lies in `chunk` until one transaction makes it an entry and removes both.
CREATE TABLE threadline.draft (
    tree        bytea   NOT NULL,
    session     bigint  NOT NULL,
    draft       bigint  NOT NULL,               -- drawn at random: a late writer never meets another draft of its number
    at          bigint  NOT NULL,
    role        bytea   NOT NULL,
    key         bytea,
    writer      bigint,                         -- the advisory lock that its writer holds; NULL when it let go of it
    seal        bytea   NOT NULL,
    PRIMARY KEY (tree, draft)
);

CREATE INDEX draft_by_session ON threadline.draft (tree, session, at);

CREATE TABLE threadline.chunk (
    tree        bytea   NOT NULL,
    draft       bigint  NOT NULL,
    number      bigint  NOT NULL,               -- 1, 2, 3 …
    text        bytea   NOT NULL,
    seal        bytea   NOT NULL,
    PRIMARY KEY (tree, draft, number)
);

-- Large strings of bodies, out of line: compressed, and named by their digest, so that a tree keeps each one once. A body
-- that was cut begins with the byte 1 and says where they belong. Whoever adds or uses one holds a head row of the tree;
-- whoever removes some holds all of them.
CREATE TABLE threadline.blob (
    tree        bytea   NOT NULL,
    name        bytea   NOT NULL,               -- SHA-256 of the content
    size        bigint  NOT NULL,               -- of the content, in bytes
    content     bytea   NOT NULL,               -- compressed with zstd
    PRIMARY KEY (tree, name)
) PARTITION BY HASH (tree);

ALTER TABLE threadline.blob ALTER content SET STORAGE EXTERNAL;   -- compressed already

-- Which entries a blob is a part of: when none is left, it goes.
CREATE TABLE threadline.blob_use (
    tree        bytea   NOT NULL,
    log         bigint  NOT NULL,
    seq         bigint  NOT NULL,
    name        bytea   NOT NULL,
    PRIMARY KEY (tree, log, seq, name)
) PARTITION BY HASH (tree);

CREATE INDEX blob_use_by_name ON threadline.blob_use (tree, name);

-- One request to a model. An id counts once in a tree: what a fork, a sub-agent or its parent reports again only lets
-- the row grow. `session` is who is charged, not sealed: a deleted child's rows go over to its parent in one statement.
CREATE TABLE threadline.request (
    tree        bytea   NOT NULL,
    request     bigint  NOT NULL,               -- by the clock, so that later ones have larger numbers
    realm       bytea   NOT NULL,
    session     bigint  NOT NULL,
    id          bytea,
    at          bigint  NOT NULL,
    model       bytea   NOT NULL,               -- empty where nobody said
    agent       bytea   NOT NULL,               -- of the session when it was recorded; likewise
    input       bigint  NOT NULL,
    output      bigint  NOT NULL,
    cache_read  bigint  NOT NULL,
    cache_write bigint  NOT NULL,
    reasoning   bigint  NOT NULL,
    cost        bigint,                         -- in billionths; NULL while unknown
    given       smallint NOT NULL,              -- 1 if the caller said the cost, 0 if it comes from prices
    seal        bytea   NOT NULL,               -- of all columns but `session`
    PRIMARY KEY (tree, request)
) PARTITION BY HASH (tree);

CREATE UNIQUE INDEX request_by_id      ON threadline.request (tree, id) WHERE id IS NOT NULL;
CREATE        INDEX request_by_session ON threadline.request (tree, session, at, request);
CREATE        INDEX request_by_at      ON threadline.request (realm, at);

-- The requests of a session, added up by UTC day, model, agent and whether they are priced.
CREATE TABLE threadline.spent (
    tree        bytea   NOT NULL,
    session     bigint  NOT NULL,
    day         bigint  NOT NULL,               -- since 1970
    priced      smallint NOT NULL,
    names       bytea   NOT NULL,               -- digest of model and agent, which may be too long for an index
    model       bytea   NOT NULL,
    agent       bytea   NOT NULL,
    realm       bytea   NOT NULL,
    requests    bigint  NOT NULL,
    input       bigint  NOT NULL,
    output      bigint  NOT NULL,
    cache_read  bigint  NOT NULL,
    cache_write bigint  NOT NULL,
    reasoning   bigint  NOT NULL,
    cost        bigint  NOT NULL,               -- of the priced ones
    PRIMARY KEY (tree, session, day, priced, names)
);

CREATE INDEX spent_by_day ON threadline.spent (realm, day);

-- A memory: that of a project, or the global one, of a namespace. Its tree is a digest of both names, and all of it lies
-- there. Whoever writes to it holds its row. In it a *scope* is the lasting memory (empty), or the working memory of a
-- session, or of one agent in a session.
CREATE TABLE threadline.memory (
    tree        bytea   NOT NULL PRIMARY KEY,
    realm       bytea   NOT NULL,
    namespace   bytea   NOT NULL,
    project     bytea   NOT NULL,               -- empty: the global one
    seal        bytea   NOT NULL,               -- of the names; what follows is computed again by verify
    nodes       bigint  NOT NULL DEFAULT 0,
    total       bigint  NOT NULL DEFAULT 0,     -- of the seals of all nodes: none is missing, none an older version
    version     integer NOT NULL                -- of the rules by which its words were made (core/words.py)
);

-- A claim, or what was made of claims. The address is the digest of type, content and inputs: the same node may stand in
-- several scopes, and what is said of it beside its content is only ever added to.
CREATE TABLE threadline.node (
    tree        bytea   NOT NULL,
    scope       bytea   NOT NULL,
    addr        bytea   NOT NULL,
    type        bytea   NOT NULL,               -- leaf, compress, supersede, root, or what another tool calls it
    active      smallint NOT NULL,              -- 0 when superseded, compressed, stashed or retired
    created_at  bigint  NOT NULL,
    touched_at  bigint  NOT NULL,               -- when it was last claimed
    expires_at  bigint,
    promoted_at bigint,                         -- of a preliminary one: when it became lasting
    session     bytea,                          -- who claimed it first
    agent       bytea,
    domain      bytea   NOT NULL,
    inputs      bytea   NOT NULL,               -- addresses, in order
    about       bytea   NOT NULL,               -- confidence, priority, anchors, meta and so on, as JSON
    content     bytea   NOT NULL,
    seal        bytea   NOT NULL,
    words       tsvector,                       -- of a lasting one: what recall finds it by
    PRIMARY KEY (tree, addr, scope)
);

CREATE INDEX node_by_scope ON threadline.node (tree, scope, active, created_at);
-- No list of what is pending: every recall would read all of it.
CREATE INDEX node_by_words ON threadline.node USING gin (words) WITH (fastupdate = off) WHERE words IS NOT NULL;

-- Which nodes were made of a node.
CREATE TABLE threadline.node_input (
    tree        bytea   NOT NULL,
    scope       bytea   NOT NULL,
    addr        bytea   NOT NULL,
    input       bytea   NOT NULL,               -- the address of the one that it was made of
    PRIMARY KEY (tree, scope, addr, input)
);

CREATE INDEX node_input_by_input ON threadline.node_input (tree, input);

-- A line of reasoning: nodes in an order, with a name and a status.
CREATE TABLE threadline.chain (
    tree        bytea   NOT NULL,
    chain       bytea   NOT NULL,               -- its id
    scope       bytea   NOT NULL,
    name        bytea   NOT NULL,
    status      bytea   NOT NULL,               -- preliminary, active, stashed, archived, superseded
    created_at  bigint  NOT NULL,
    extended_at bigint  NOT NULL,
    session     bytea,
    agent       bytea,
    domain      bytea   NOT NULL,
    members     bytea   NOT NULL,               -- addresses, in order
    about       bytea   NOT NULL,               -- meta, as JSON
    seal        bytea   NOT NULL,
    PRIMARY KEY (tree, chain)
);

CREATE INDEX chain_by_name ON threadline.chain (tree, name);

-- Which chains hold a node.
CREATE TABLE threadline.chain_member (
    tree        bytea   NOT NULL,
    chain       bytea   NOT NULL,
    addr        bytea   NOT NULL,
    PRIMARY KEY (tree, chain, addr)
);

CREATE INDEX chain_member_by_addr ON threadline.chain_member (tree, addr);

-- The working memory of a session, or of an agent in it: when it began, was used and ended.
CREATE TABLE threadline.working (
    tree        bytea   NOT NULL,
    scope       bytea   NOT NULL,
    realm       bytea   NOT NULL,
    session     bytea   NOT NULL,
    agent       bytea,
    started_at  bigint  NOT NULL,
    touched_at  bigint  NOT NULL,
    ended_at    bigint,                         -- archived since; NULL while it is at work
    turns       bigint  NOT NULL,
    folded      bigint  NOT NULL,               -- the turn after which it was last summed up
    seal        bytea   NOT NULL,
    PRIMARY KEY (tree, scope)
);

CREATE INDEX working_by_session ON threadline.working (realm, session);

-- What was done in a memory. A number is a time in microseconds, made unique.
CREATE TABLE threadline.memory_event (
    tree        bytea   NOT NULL,
    number      bigint  NOT NULL,
    what        bytea   NOT NULL,
    session     bytea,
    agent       bytea,
    addrs       bytea   NOT NULL,
    detail      bytea   NOT NULL,               -- JSON
    seal        bytea   NOT NULL,
    PRIMARY KEY (tree, number)
);

-- What can be found of each entry: its terms, ready made (core/words.py), and how many they are. Seq 0 is the title of the
-- session whose own log it is. It follows from the log, lags behind it, and can be emptied at any time. Whoever writes
-- here holds the row of the log in `log`, so that nothing comes back that a deletion has just removed.
CREATE TABLE threadline.search (
    tree        bytea   NOT NULL,
    log         bigint  NOT NULL,
    seq         bigint  NOT NULL,
    realm       bytea   NOT NULL,
    terms       integer NOT NULL,
    words       tsvector NOT NULL,
    PRIMARY KEY (tree, log, seq)
);

CREATE INDEX search_by_words ON threadline.search USING gin (words);

-- How far a log is indexed, and of which change of its session the title is.
CREATE TABLE threadline.search_log (
    tree        bytea   NOT NULL,
    log         bigint  NOT NULL,
    realm       bytea   NOT NULL,
    upto        bigint  NOT NULL,
    seen        bigint  NOT NULL,
    PRIMARY KEY (tree, log)
);

-- By which rules a namespace is indexed, up to which time all changes are known, and sums, which only ranking uses: what
-- is deleted is not taken off them, so that no deletion waits for whoever indexes. Whoever indexes holds the row.
CREATE TABLE threadline.search_state (
    realm       bytea   NOT NULL PRIMARY KEY,
    version     integer NOT NULL,
    at          bigint  NOT NULL,
    rows        bigint  NOT NULL,
    docs        bigint  NOT NULL,
    terms       bigint  NOT NULL
);

-- Partitions keep indexes and vacuums small. Where the tables are distributed, shards take their place.
DO $$
DECLARE
    large text;
BEGIN
    FOREACH large IN ARRAY ARRAY['entry', 'key', 'blob', 'blob_use', 'request'] LOOP
        FOR n IN 0 .. 7 LOOP
            EXECUTE format('CREATE TABLE threadline.%s_%s PARTITION OF threadline.%s
                            FOR VALUES WITH (MODULUS 8, REMAINDER %s)', large, n, large, n);
        END LOOP;
    END LOOP;
END
$$;

INSERT INTO threadline.version VALUES (1);
