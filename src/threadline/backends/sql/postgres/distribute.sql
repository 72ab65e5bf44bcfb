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

-- function_append: runs where its tree is
SELECT create_distributed_function(
    'threadline.append(bytea, bigint, bigint, bigint, boolean, bytea, bytea, bigint, text, bigint, bigint, bigint, bytea,
                       bytea, bytea)',
    'the_tree', colocate_with => 'threadline.head')

-- function_write: runs where its tree is
SELECT create_distributed_function(
    'threadline.write(bytea, bigint, bigint, bigint, boolean, bytea[], bytea[], bigint[], bigint[], text[], bigint[],
                      bigint[], bigint[], bytea[], bytea[], bytea[], bigint[], boolean[], bytea[], bigint[], bigint[], bytea[])',
    'the_tree', colocate_with => 'threadline.head')
