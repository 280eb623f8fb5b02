#include "commlens/formats/sqlite/schema.hpp"

namespace commlens::formats::sqlite {

const char* const k_sqlite_tables = R"(
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE skipped (reason TEXT PRIMARY KEY, records INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE assumed (reason TEXT PRIMARY KEY, records INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE groups (
  id INTEGER PRIMARY KEY,
  axis TEXT NOT NULL,
  size INTEGER NOT NULL,
  name TEXT,
  communicator TEXT);
CREATE TABLE group_members (
  group_id INTEGER NOT NULL REFERENCES groups(id),
  position INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  PRIMARY KEY (group_id, position)) WITHOUT ROWID;
CREATE TABLE ops (
  id INTEGER PRIMARY KEY,
  op TEXT NOT NULL,
  dtype TEXT NOT NULL,
  phase TEXT NOT NULL,
  group_id INTEGER NOT NULL REFERENCES groups(id),
  root INTEGER,
  input_bytes INTEGER NOT NULL,
  output_bytes INTEGER NOT NULL,
  message_bytes INTEGER NOT NULL,
  wire_bytes INTEGER,
  bus_factor REAL,
  rounding_bytes INTEGER NOT NULL,
  tag TEXT,
  rule TEXT,
  name TEXT,
  match TEXT,
  reduce_op TEXT,
  algorithm TEXT,
  protocol TEXT,
  blocking TEXT,
  site TEXT,
  note TEXT);
CREATE TABLE calls (
  rank INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  iteration INTEGER,
  micro_batch INTEGER,
  op_id INTEGER NOT NULL REFERENCES ops(id),
  issue_ns INTEGER,
  start_ns INTEGER,
  duration_ns INTEGER,
  PRIMARY KEY (rank, sequence)) WITHOUT ROWID;
CREATE TABLE compute (
  rank INTEGER NOT NULL,
  iteration INTEGER,
  start_ns INTEGER NOT NULL,
  duration_ns INTEGER NOT NULL);
)";

// A group without members may be several of which the source reports only the size, so calls on
// it are no collectives: the numbers of two ranks' calls would not mean the same.
const char* const k_sqlite_views = R"(
CREATE INDEX calls_by_op ON calls(op_id);
CREATE VIEW call_details AS
  SELECT calls.rank, calls.sequence, calls.iteration, ops.phase, ops.op, ops.dtype, groups.axis,
         groups.size AS group_size, ops.group_id, ops.root, ops.input_bytes, ops.output_bytes,
         ops.message_bytes, ops.wire_bytes, calls.micro_batch, calls.issue_ns, calls.start_ns,
         calls.duration_ns,
         CASE WHEN calls.duration_ns > 0 AND ops.message_bytes > 0
              THEN 1.0 * ops.message_bytes * ops.bus_factor / calls.duration_ns END AS bus_bandwidth_gb_per_s,
         ops.tag, ops.rule, ops.name, ops.match, ops.reduce_op, ops.algorithm, ops.protocol, ops.blocking,
         ops.site, ops.note
  FROM calls JOIN ops ON ops.id = calls.op_id JOIN groups ON groups.id = ops.group_id;
CREATE VIEW volumes AS
  SELECT calls.iteration, calls.rank, groups.axis, ops.op, ops.phase, count(*) AS calls,
         sum(ops.message_bytes) AS message_bytes, sum(ops.wire_bytes) AS wire_bytes
  FROM calls JOIN ops ON ops.id = calls.op_id JOIN groups ON groups.id = ops.group_id
  GROUP BY calls.iteration, calls.rank, groups.axis, ops.op, ops.phase;
CREATE VIEW collectives AS
  SELECT calls.rank, calls.sequence, ops.group_id, ops.op,
         row_number() OVER (PARTITION BY calls.rank, ops.group_id, ops.op ORDER BY calls.sequence) AS number
  FROM calls JOIN ops ON ops.id = calls.op_id
  WHERE ops.op NOT IN ('send', 'recv') AND ops.group_id IN (SELECT group_id FROM group_members);
CREATE VIEW messages AS
  WITH ends AS (
    SELECT calls.rank, calls.sequence, ops.op, ops.dtype, ops.message_bytes, source.rank AS source,
           destination.rank AS destination,
           row_number() OVER (PARTITION BY source.rank, destination.rank, ops.op, ops.dtype, ops.message_bytes
                              ORDER BY calls.sequence) AS number
    FROM calls JOIN ops ON ops.id = calls.op_id
      JOIN group_members AS source ON source.group_id = ops.group_id AND source.position = 0
      JOIN group_members AS destination ON destination.group_id = ops.group_id AND destination.position = 1
    WHERE ops.op IN ('send', 'recv'))
  SELECT sent.source, sent.destination, sent.dtype, sent.message_bytes, sent.sequence AS send_sequence,
         received.sequence AS recv_sequence
  FROM ends AS sent JOIN ends AS received
    ON received.op = 'recv' AND received.source = sent.source AND received.destination = sent.destination
      AND received.dtype = sent.dtype AND received.message_bytes = sent.message_bytes
      AND received.number = sent.number
  WHERE sent.op = 'send';
)";

}  // namespace commlens::formats::sqlite
