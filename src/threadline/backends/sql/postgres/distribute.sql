-- How the tables spread over the nodes of a Citus cluster, step by step. Each step is one statement. A table that is
-- distributed already is left as it is; every other step may be run again.
--
-- By tree, and together: all that one operation touches lies on one node. `name`, which is unique across trees, is
-- distributed by the name itself. Shards take the place of partitions.

-- head: the rows that writers wait on lead the group
SELECT create_distributed_table('threadline.head', 'tree', colocate_with => 'none')

-- session: with them
SELECT create_distributed_table('threadline.session', 'tree', colocate_with => 'threadline.head')

-- share: with them
SELECT create_distributed_table('threadline.share', 'tree', colocate_with => 'threadline.head')

-- log: with them
SELECT create_distributed_table('threadline.log', 'tree', colocate_with => 'threadline.head')

-- tag: with them
SELECT create_distributed_table('threadline.tag', 'tree', colocate_with => 'threadline.head')

-- inbox: with them
SELECT create_distributed_table('threadline.inbox', 'tree', colocate_with => 'threadline.head')

-- draft: with them
SELECT create_distributed_table('threadline.draft', 'tree', colocate_with => 'threadline.head')

-- chunk: with them
SELECT create_distributed_table('threadline.chunk', 'tree', colocate_with => 'threadline.head')

-- memory: with them
SELECT create_distributed_table('threadline.memory', 'tree', colocate_with => 'threadline.head')

-- node: with them
SELECT create_distributed_table('threadline.node', 'tree', colocate_with => 'threadline.head')

-- node_input: with them
SELECT create_distributed_table('threadline.node_input', 'tree', colocate_with => 'threadline.head')

-- chain: with them
SELECT create_distributed_table('threadline.chain', 'tree', colocate_with => 'threadline.head')

-- chain_member: with them
SELECT create_distributed_table('threadline.chain_member', 'tree', colocate_with => 'threadline.head')

-- working: with them
SELECT create_distributed_table('threadline.working', 'tree', colocate_with => 'threadline.head')

-- memory_event: with them
SELECT create_distributed_table('threadline.memory_event', 'tree', colocate_with => 'threadline.head')

-- whole_entry: partitions give way
DO $$
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'threadline.entry'::regclass) = 'p' THEN
        CREATE TABLE threadline.entry_whole (LIKE threadline.entry INCLUDING ALL);
        INSERT INTO threadline.entry_whole SELECT * FROM threadline.entry;
        DROP TABLE threadline.entry;
        ALTER TABLE threadline.entry_whole RENAME TO entry;
        ALTER INDEX threadline.entry_whole_pkey RENAME TO entry_pkey;
        ALTER INDEX threadline.entry_whole_tree_log_kind_seq_idx RENAME TO entry_by_kind;
    END IF;
END
$$

-- entry: with them
SELECT create_distributed_table('threadline.entry', 'tree', colocate_with => 'threadline.head')

-- whole_key: partitions give way
DO $$
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'threadline.key'::regclass) = 'p' THEN
        CREATE TABLE threadline.key_whole (LIKE threadline.key INCLUDING ALL);
        INSERT INTO threadline.key_whole SELECT * FROM threadline.key;
        DROP TABLE threadline.key;
        ALTER TABLE threadline.key_whole RENAME TO key;
        ALTER INDEX threadline.key_whole_pkey RENAME TO key_pkey;
    END IF;
END
$$

-- key: with them
SELECT create_distributed_table('threadline.key', 'tree', colocate_with => 'threadline.head')

-- whole_blob: partitions give way
DO $$
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'threadline.blob'::regclass) = 'p' THEN
        CREATE TABLE threadline.blob_whole (LIKE threadline.blob INCLUDING ALL);
        INSERT INTO threadline.blob_whole SELECT * FROM threadline.blob;
        DROP TABLE threadline.blob;
        ALTER TABLE threadline.blob_whole RENAME TO blob;
        ALTER INDEX threadline.blob_whole_pkey RENAME TO blob_pkey;
    END IF;
END
$$

-- blob: with them
SELECT create_distributed_table('threadline.blob', 'tree', colocate_with => 'threadline.head')

-- whole_blob_use: partitions give way
DO $$
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'threadline.blob_use'::regclass) = 'p' THEN
        CREATE TABLE threadline.blob_use_whole (LIKE threadline.blob_use INCLUDING ALL);
        INSERT INTO threadline.blob_use_whole SELECT * FROM threadline.blob_use;
        DROP TABLE threadline.blob_use;
        ALTER TABLE threadline.blob_use_whole RENAME TO blob_use;
        ALTER INDEX threadline.blob_use_whole_pkey RENAME TO blob_use_pkey;
    END IF;
END
$$

-- blob_use: with them
SELECT create_distributed_table('threadline.blob_use', 'tree', colocate_with => 'threadline.head')

-- whole_request: partitions give way
DO $$
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'threadline.request'::regclass) = 'p' THEN
        CREATE TABLE threadline.request_whole (LIKE threadline.request INCLUDING ALL);
        INSERT INTO threadline.request_whole SELECT * FROM threadline.request;
        DROP TABLE threadline.request;
        ALTER TABLE threadline.request_whole RENAME TO request;
        ALTER INDEX threadline.request_whole_pkey RENAME TO request_pkey;
    END IF;
END
$$

-- request: with them
SELECT create_distributed_table('threadline.request', 'tree', colocate_with => 'threadline.head')

-- spent: with them
SELECT create_distributed_table('threadline.spent', 'tree', colocate_with => 'threadline.head')

-- search: with them
SELECT create_distributed_table('threadline.search', 'tree', colocate_with => 'threadline.head')

-- search_log: with them
SELECT create_distributed_table('threadline.search_log', 'tree', colocate_with => 'threadline.head')

-- search_state: by namespace, apart from the trees
SELECT create_distributed_table('threadline.search_state', 'realm', colocate_with => 'none')

-- name: by the name, apart from the trees
SELECT create_distributed_table('threadline.name', 'name', colocate_with => 'none')

-- version: on every node
SELECT create_reference_table('threadline.version')

-- function_head_seal: on every node
SELECT create_distributed_function('threadline.head_seal(bytea, bigint, bytea, bigint, bigint, bigint, bigint)')

-- function_key_seal: on every node
SELECT create_distributed_function('threadline.key_seal(bytea, bigint, bytea, bigint, bigint, bytea)')

-- function_clock: on every node
SELECT create_distributed_function('threadline.clock()')

-- function_late: on every node
SELECT create_distributed_function('threadline.late(bigint)')

-- function_may_write: on every node
SELECT create_distributed_function('threadline.may_write(bytea, bigint)')

-- function_hidden: on every node
SELECT create_distributed_function('threadline.hidden(bytea)')

-- function_request_seal: on every node
SELECT create_distributed_function(
    'threadline.request_seal(bytea, bigint, bytea, bytea, bigint, bytea, bytea, bigint[], bigint, bigint)')

-- function_names: on every node
SELECT create_distributed_function('threadline.names(bytea, bytea)')

-- function_charge: runs where its tree is
SELECT create_distributed_function(
    'threadline.charge(bytea, bigint, bytea, bytea, bigint, bytea, bytea, bigint[], bigint, bigint)',
    'the_tree', colocate_with => 'threadline.head')

-- function_add_spent: runs where its tree is
SELECT create_distributed_function(
    'threadline.add_spent(bytea, bigint, bytea, bigint, bytea, bytea, bigint[], bigint, bigint)',
    'the_tree', colocate_with => 'threadline.head')

-- function_append: runs where its tree is
SELECT create_distributed_function(
    'threadline.append(bytea, bigint, bigint, bigint, boolean, bytea, bytea, bigint, text, bigint, bigint, bigint, bytea,
                       bytea, bytea)',
    'the_tree', colocate_with => 'threadline.head')

-- function_write: runs where its tree is
SELECT create_distributed_function(
    'threadline.write(bytea, bigint, bigint, bigint, boolean, bytea[], bytea[], bigint[], bigint[], text[], bigint[],
                      bigint[], bigint[], bytea[], bytea[], bytea[], bigint[], boolean[], bytea[], bigint[], bigint[],
                      bytea[], bytea[], bigint[], bytea[], bigint[], bytea[],
                      bigint[], bytea[], bigint[], bytea[], bytea[], bigint[], bigint[], bigint[])',
    'the_tree', colocate_with => 'threadline.head')
