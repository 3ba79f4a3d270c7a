INSERT INTO project (name, recorded, created_at) VALUES ('lab', 0, 1760000000000);

INSERT INTO machine (id, name, substrate, facts, desired, phase, reason, phase_at, wake_at) VALUES
  ('m1', 'host-1', 'local', '{"arch":"amd64","cpus":4,"memory_mib":8192}', 'service', 'in-use', 'node n1 of cluster cfd', 1760000001000, 1760000001000),
  ('m2', 'host-2', 'local', '{"arch":"amd64","cpus":4,"memory_mib":8192}', 'service', 'in-use', 'node n2 of cluster cfd', 1760000001000, 1760000001000),
  ('m3', 'host-3', 'local', '{}', 'service', 'enrolled', '', 1760000001000, 1760000001000),
  ('m4', 'host-4', 'local', '{}', 'removed', 'removed', '', 1760000001000, 2305843009213693951);
UPDATE machine SET quarantine_reason = 'node n9 failed' WHERE id = 'm3';

INSERT INTO cluster (id, project, name, spec, image, desired, generation, reached, credential, receipt, created_at, created_by, phase, reason, phase_at, wake_at) VALUES
  ('c0', 'lab', 'cfd', '{"name":"cfd","project":"lab","head":{"class":"local"},"queues":[{"name":"batch","class":"local","min":1,"max":1}]}',
   'sha256:0000000000000000000000000000000000000000000000000000000000000000', 'deleted', 1, 1, '', '{}', 1760000000500, 'admin', 'deleted', '', 1760000000900, 2305843009213693951),
  ('c1', 'lab', 'cfd', '{"name":"cfd","project":"lab","head":{"class":"local"},"queues":[{"name":"batch","class":"local","min":1,"max":1}]}',
   'sha256:0000000000000000000000000000000000000000000000000000000000000000', 'present', 2, 1, '', '', 1760000001000, 'admin', 'ready', 'head and 1 node ready', 1760000002000, 1760000002000);

INSERT INTO node_slot (cluster_id, name, slot) VALUES ('c0', 'head', 1), ('c0', 'n2', 2), ('c1', 'head', 1), ('c1', 'n2', 2);
UPDATE machine SET whole = id WHERE phase <> 'removed';

INSERT INTO node (id, cluster_id, name, role, queue, class, machine_id, machine, desired, boot, joined_boot, joined_key, created_at, phase, reason, phase_at, wake_at) VALUES
  ('k0', 'c0', 'head', 'head', '', 'local', NULL, 'host-1', 'absent', 1, 1, 'SHA256:aaaa', 1760000000500, 'gone', '', 1760000000900, 2305843009213693951),
  ('k1', 'c1', 'head', 'head', '', 'local', 'm1', 'host-1', 'present', 1, 1, 'SHA256:bbbb', 1760000001000, 'ready', '', 1760000002000, 1760000002000),
  ('k2', 'c1', 'n2', 'compute', 'batch', 'local', 'm2', 'host-2', 'present', 2, 2, 'SHA256:cccc', 1760000001000, 'ready', '', 1760000002000, 1760000002000);
UPDATE node SET whole = machine_id;

INSERT INTO observed (node_id, boot, seen_at, revision, checks, facts, scheduler) VALUES
  ('k1', 1, 1760000002000, 1, '[{"name":"munge","ok":true}]', '{"arch":"amd64","cpus":4}', ''),
  ('k2', 2, 1760000002000, 1, '[]', '{}', '{"name":"n2","state":"free","raw":"idle","responding":true,"jobs":0,"last_busy":"Unknown"}');

INSERT INTO event (seq, at, type, project, cluster_id, cluster, node, machine, phase, text) VALUES
  (1, 1760000001000, 'cluster.requested', 'lab', 'c1', 'cfd', '', '', '', 'admin asked for 1 node'),
  (2, 1760000002000, 'cluster.phase', 'lab', 'c1', 'cfd', '', '', 'ready', 'head and 1 node ready');
UPDATE event_head SET seq = 2;

INSERT INTO idempotency (identity, key, request, status, answer, project, created_at) VALUES
  ('admin', 'key-1', 'abcd', 202, '{"id":"c1","name":"cfd","project":"lab"}', 'lab', 1760000001000);
INSERT INTO network (name, description) VALUES ('rack', '{"name":"rack","interface":"boot0","address":"10.78.0.1/16","mode":"own"}');
INSERT INTO machine (id, name, substrate, facts, desired, phase, phase_at, wake_at, network, macs, power, boot, boot_at, tries, dirty, release) VALUES
  ('m5', 'rack-1', 'metal', '{"arch":"amd64","cpus":64,"memory_mib":262144}', 'service', 'inspecting', 1760000003000, 1760000003000,
   'rack', '["52:54:00:00:00:01"]', '{"control":"ipmi://10.0.0.5","credentials":"secret:bmc"}', 3, 1760000003000, 1, 1, '{}');
INSERT INTO nic (mac, machine_id, position) VALUES ('52:54:00:00:00:01', 'm5', 0);
INSERT INTO lease (network, address, mac, expires) VALUES ('rack', 172884322, '52:54:00:00:00:01', 0), ('rack', 172884323, '52:54:00:00:00:02', 1760000009000);
INSERT INTO boot (machine_id, subject, number, image, file, powered_at, scripts, step, heard_at, findings) VALUES
  ('m5', 'm5', 3, 'sha256:0000000000000000000000000000000000000000000000000000000000000000', '{"node":"m5","name":"rack-1","boot":3,"token":"","authority":"","endpoints":["https://10.78.0.1:7421"],"duty":"inspect"}', 1760000003000, 1, 'kernel', 1760000003500, '');
INSERT INTO unknown_machine (mac, network, first_seen, last_seen) VALUES ('52:54:00:00:00:02', 'rack', 1760000003000, 1760000003100);
UPDATE cluster SET segment = 7 WHERE id = 'c1';
UPDATE cluster SET targets = '{"batch":1}' WHERE id = 'c1';
UPDATE node SET image = 'sha256:0000000000000000000000000000000000000000000000000000000000000000' WHERE phase <> 'gone';
INSERT INTO listener (place, controller, since, heard_at) VALUES ('', 'controller-1', 1760000001000, 1760000004000);
INSERT INTO alarm (place, raised_at, text) VALUES ('rack', 1760000004000, '3 of 4 nodes are silent');
UPDATE observed SET well_at = seen_at, well_since = seen_at;
INSERT INTO test_result (at, machine_id, machine, class, comparison_group, cluster_id, cluster, node_id, node, boot, number, image, took, results, verdict, text) VALUES
  (1760000002000, 'm2', 'host-2', 'local', 'amd64 4', 'c1', 'cfd', 'k2', 'n2', 2, 1,
   'sha256:0000000000000000000000000000000000000000000000000000000000000000', 900000, '[]', 'passed', '');
UPDATE node SET test = 1 WHERE id = 'k2';
UPDATE observed SET test = '{"number":1,"took":900000000,"measures":[{"quantity":"memory","value":10.5}]}' WHERE node_id = 'k2';
UPDATE cluster SET aim = 2, good = '{}', stopped = 2, stopped_why = 'node n2 did not come back' WHERE id = 'c1';
UPDATE observed SET idle_at = 1760000002500, last_busy = '2025-10-09T08:53:20' WHERE node_id = 'k2';
UPDATE observed SET waiting = '{"waiting":[{"id":7,"tasks":1,"user":"ada","queues":["batch"],"nodes":2,"cpus":2,"node_cpus":1,"since":"2025-10-09T08:53:20Z","reason":"Resources","grows":true}],"waits":1}' WHERE node_id = 'k1';
INSERT INTO snapshot (id, project, name, cluster_id, cluster, spec, desired, bytes, created_at, created_by, phase, phase_at, wake_at) VALUES
  ('s1', 'lab', 'before-it-broke', 'c1', 'cfd', '{"name":"cfd","project":"lab","head":{"class":"local"},"queues":[{"name":"batch","class":"local","min":1,"max":1}]}',
   'present', 4096, 1760000005000, 'admin', 'saved', 1760000005500, 1760000005500);
UPDATE cluster SET pause_wait = 60000, held = 4096 WHERE id = 'c1';
UPDATE cluster SET starts_at = 1760000000000, ends_at = 9760000000000, lead = 60000, warned = 3600000 WHERE id = 'c1';
INSERT INTO usage (subject, kind, project, cluster_id, cluster, node, queue, class, machine, state, quantity, rate, currency, charges, charged, cores, gpus, follows, began, ended) VALUES
  ('k1', 'node', 'lab', 'c1', 'cfd', 'head', '', 'local', 'host-1', 'preparing', 1, 1000000, 'EUR', '["ready"]', 0, 4, 0, NULL, 1760000001000, 1760000002000),
  ('k1', 'node', 'lab', 'c1', 'cfd', 'head', '', 'local', 'host-1', 'ready', 1, 1000000, 'EUR', '["ready"]', 1, 4, 0, 1760000002000, 1760000002000, NULL),
  ('k2', 'node', 'lab', 'c1', 'cfd', 'n2', 'batch', 'local', 'host-2', 'preparing', 1, 1000000, 'EUR', '["ready"]', 0, 4, 0, NULL, 1760000001000, 1760000002000),
  ('k2', 'node', 'lab', 'c1', 'cfd', 'n2', 'batch', 'local', 'host-2', 'ready', 1, 1000000, 'EUR', '["ready"]', 1, 4, 0, 1760000002000, 1760000002000, NULL),
  ('c1', 'home', 'lab', 'c1', 'cfd', '', '', '', '', 'stored', 4, 20000, 'EUR', '["stored"]', 1, 0, 0, NULL, 1760000001000, NULL);
INSERT INTO limit_notice (subject, what, percent) VALUES ('c1', 'budget', 80);
UPDATE event SET request = 'req-1' WHERE seq = 1;
INSERT INTO person (name, uid, full_name, operator, subject, created_at) VALUES
  ('admin', 20000, 'The Operator', 1, NULL, 1760000000000),
  ('ada', 20001, 'Ada', 0, 'https://id.example.org ada', 1760000000000),
  ('left', 20002, '', 0, NULL, 1760000000000);
UPDATE person SET disabled = 1 WHERE name = 'left';
INSERT INTO member (project, person, role, created_at) VALUES ('lab', 'admin', 'owner', 1760000000000), ('lab', 'ada', 'member', 1760000000000);
INSERT INTO token (id, hash, person, name, kind, scope, project, created_at, expires_at) VALUES
  ('t1', '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 'admin', 'local', 'local', 'all', NULL, 1760000000000, NULL),
  ('t2', '60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752', 'ada', 'laptop', 'api', 'read', 'lab', 1760000000000, 9760000000000);
INSERT INTO user_key (fingerprint, person, line, created_at) VALUES ('SHA256:dddd', 'ada', 'ssh-ed25519 AAAA ada', 1760000000000);
UPDATE access_head SET revision = 9;
INSERT INTO audit (id, at, person, token, door, action, project, object, outcome, remote, request) VALUES
  ('a1', 1760000001000, 'admin', 't1', 'api', 'create-cluster', 'lab', 'cfd', '202', '192.0.2.1', 'req-1');
INSERT INTO session (id, person, credential, gateway, kind, place_id, place, project, what, remote, began_at, seen_at, ended_at, received, sent, outcome) VALUES
  ('w1', 'ada', 'SHA256:dddd', 'controller-1', 'cluster', 'c1', 'cfd', 'lab', 'shell', '192.0.2.1', 1760000006000, 1760000006500, 1760000006500, 10, 20, 'ended'),
  ('w2', 'ada', 'SHA256:dddd', 'controller-1', 'cluster', 'c1', 'cfd', 'lab', 'sftp', '192.0.2.1', 1760000006000, 1760000006500, NULL, 10, 20, '');
INSERT INTO login_proof (hash, expires_at) VALUES ('beef', 1760000007000);
INSERT INTO external_cluster (name, login, host_keys, probe, created_at, looked_at, seen_at, system, queues) VALUES
  ('tier0', 'login.example.org:22', 'ssh-ed25519 AAAA tier0', 'muster', 1760000000000, 1760000001000, 1760000001000, 'Slurm 23.11', '[]');
INSERT INTO external_cluster_project (external_cluster, project, rule, account) VALUES ('tier0', 'lab', 'shared', 'lab0');
INSERT INTO external_cluster_account (external_cluster, person, account) VALUES ('tier0', 'ada', 'ada0');
INSERT INTO web_login (hash, cookie, token, cluster_id, app, expires_at) VALUES ('cafe', 1, 't2', 'c1', 'jupyter', 9760000000000);
INSERT INTO machine (id, name, substrate, facts, desired, phase, phase_at, wake_at, hosts) VALUES
  ('h1', 'big-1', 'local', '{"arch":"amd64","cpus":64,"memory_mib":262144}', 'service', 'available', 1760000008000, 1760000008000, 1);
INSERT INTO machine (id, name, substrate, facts, desired, phase, phase_at, wake_at, host_id, allocation) VALUES
  ('g1', 'big-1-g1', 'vm', '{"arch":"amd64","cpus":2,"memory_mib":4096}', 'service', 'in-use', 1760000008000, 1760000008000, 'h1', '{}');
INSERT INTO allocation (host_id, kind, name, guest_id) VALUES ('h1', 'core', '0', 'g1'), ('h1', 'core', '1/0', 'g1'), ('h1', 'device', '0000:01:00.1', 'g1');
INSERT INTO node_slot (cluster_id, name, slot) VALUES ('c1', 'n3', 3);
INSERT INTO node (id, cluster_id, name, role, queue, class, machine_id, machine, desired, boot, created_at, phase, phase_at, wake_at, vm, host_id) VALUES
  ('k3', 'c1', 'n3', 'compute', 'batch', 'local', 'g1', 'big-1-g1', 'present', 1, 1760000008000, 'booting', 1760000008000, 1760000008000, '{"cpus":2,"memory":"4GiB"}', 'h1');
INSERT INTO machine (id, name, substrate, facts, desired, phase, phase_at, wake_at, network, macs, whole, hosts, hosting) VALUES
  ('h2', 'rack-2', 'metal', '{"arch":"amd64","cpus":64,"memory_mib":262144}', 'service', 'in-use', 1760000008000, 1760000008000, 'rack', '["52:54:00:00:00:03"]', NULL, 1, 3);
INSERT INTO hosted (node_id, host_id, boot, try, wanted, since, guest) VALUES ('k2', 'h2', 1, 1, 0, 2, '{"cluster":"c1","node":"k2","boot":1,"try":1,"name":"n2","machine":"rack-2-g1","address":"10.77.7.3/16","mac":"02:00:00:00:07:03","image":"sha256:0000000000000000000000000000000000000000000000000000000000000000","cpus":2,"memory_mib":4096,"holding":{},"asked":{},"file":{"node":"k2","name":"n2","boot":1,"token":"","authority":"","endpoints":["https://10.78.0.1:7421"]}}');
INSERT INTO host_report (host_id, boot, seen_at, report) VALUES ('h2', 4, 1760000008500, '{"revision":3}');
UPDATE machine SET to_host_id = 'h2', to_allocation = '{}' WHERE id = 'g1';
INSERT INTO allocation (host_id, kind, name, guest_id) VALUES ('h2', 'core', '4', 'g1');
UPDATE cluster SET keeps_memory = 1 WHERE id = 'c1';
INSERT INTO guest_migration (node_id, source_id, target_id, number, step, stage, source_does, target_does, kept, source_since, target_since, begun_at, guest) VALUES
  ('k3', 'h1', 'h2', 1, 1, 'receive', '', 'receive', 1, 1, 3, 1760000008600, '{"cluster":"c1","node":"k3","boot":1,"try":1,"name":"n3","machine":"big-1-g1","address":"10.77.7.4/16","mac":"02:00:00:00:07:04","image":"sha256:0000000000000000000000000000000000000000000000000000000000000000","cpus":2,"memory_mib":4096,"holding":{},"asked":{},"file":{}}');
UPDATE machine SET moves_at = 1760000008600 WHERE id = 'g1';
INSERT INTO fabric (id, name, driver, config, managers, desired, applied, applied_at, created_at, created_by, phase, phase_at, wake_at) VALUES
  ('f1', 'ib0', 'opensm', '{"hosts":"here"}', '["0x0002c90300000001"]', 'present', 1, 1760000009000, 1760000009000, 'admin', 'ready', 1760000009000, 1760000009000);
INSERT INTO fabric_snapshot (fabric_id, taken_at, text) VALUES ('f1', 1760000009000, '');
INSERT INTO fabric_port (guid, fabric_id, adapter, number, name, machine_id) VALUES ('0x0002c90300000011', 'f1', '0x0002c90300000010', 1, 'host-2', 'm2');
INSERT INTO partition (id, fabric_id, pkey, cluster_id, name) VALUES ('p1', 'f1', 1, 'c1', ''), ('p2', 'f1', 28672, NULL, 'storage');
INSERT INTO partition_member (partition_id, fabric_id, guid, kind, node_id, full_member, since) VALUES
  ('p1', 'f1', '0x0002c90300000011', 'port', 'k2', 1, 1), ('p2', 'f1', '0x0002c90300000001', 'site', NULL, 1, 1);
INSERT INTO port_seen (guid, fabric_id, entries, capacity, answered, surplus, missing, seen_at, odd_at) VALUES
  ('0x0002c90300000011', 'f1', '["0x8001"]', 128, 1, '[]', '[]', 1760000009000, 0);
UPDATE machine SET facts = '{"arch":"amd64","cpus":4,"memory_mib":8192,"devices":[{"kind":"hca","pci":"0000:04:00.0","guid":"0002:C903:0000:0010"},{"kind":"gpu","pci":"0000:05:00.0"}]}' WHERE id = 'm2';
INSERT INTO fabric_port (guid, fabric_id, adapter, number, name) VALUES ('0x0002c90300000012', 'f1', '0x0002c90300000010', 2, 'host-2');
INSERT INTO topology (fabric, graph, taken_at) VALUES ('eth0', '{}', 1760000009000);
UPDATE node SET leaf = 'leaf-1', leaf_number = 1 WHERE id = 'k2';
UPDATE machine SET ports = '["swp1"]' WHERE id = 'm5';
UPDATE boot SET step_at = 1760000003400;
INSERT INTO idempotency (identity, key, request, status, answer, created_at, project) VALUES ('ada', 'key-2', 'ef01', 202, '{}', 1760000009000, 'lab');
INSERT INTO agent_trust (subject, boot, agents, tokens, hosts) VALUES ('k1', 1, 1, 1, 1);
UPDATE cluster SET credential_at = 1760000009000 WHERE id = 'c1';
INSERT INTO task (id, cluster_id, account, work, cancel, boot, said, outcome, kept, created_at, phase, phase_at, wake_at) VALUES
  ('t1', 'c1', 'ada', '{"command":["hostname"],"ranks":2,"limit":600000000000}', 0, 1,
   '{"id":"t1","stage":"ended","outcome":"ok","exit":0,"nodes":["n2"],"bytes":3,"samples":[{"name":"rate","value":2.5,"unit":"GB/s"}]}',
   'ok', 3, 1760000010000, 'ended', 1760000011000, 2305843009213693951),
  ('t2', 'c1', 'ada', '{"script":"sleep 1","limit":600000000000}', 0, 0, '', '', 0, 1760000012000, 'pending', 1760000012000, 1760000012000);
INSERT INTO task_output (task_id, start, bytes) VALUES ('t1', 0, 'bjIK');
INSERT INTO adapter (guid, machine_id) VALUES ('0x0002c90300000010', 'm2'), ('0x0002c90300000020', 'm3');
UPDATE machine SET off_since = 1760000013000 WHERE id = 'm5';
INSERT INTO task (id, cluster_id, origin, account, work, said, outcome, created_at, phase, phase_at, wake_at) VALUES
  ('t3', 'c1', 'pause', 'root', '{"command":["/etc/muster/checkpoint"],"limit":300000000000}',
   '{"stage":"ended","outcome":"ok","exit":0}', 'ok', 1760000020000, 'ended', 1760000021000, 2305843009213693951);
INSERT INTO user_key (fingerprint, person, line, created_at) VALUES ('SHA256:eeee', 'ada', 'ssh-ed25519 AAAB ada', 1760000030000);
INSERT INTO member (project, person, role, invited_by, created_at) VALUES ('lab', 'left', 'member', 'admin', 1760000030000);
UPDATE cluster SET learned = '{"batch":{"classes":["local"],"size":{"cpus":2,"threads":1,"memory_mib":4096},"seen":true,"doubts":{"7":{"asks":"c0ffee","since":"2025-10-09T08:53:20Z","vain":true}}}}' WHERE id = 'c1';
UPDATE observed SET undone = '[{"user":"ada","text":"home and keys: no space left on device"}]' WHERE node_id = 'k1';
INSERT INTO job (cluster_id, number, ended, project, cluster, id, account, queue, qos, name, nodes, node_count, cpus, gpus, memory, submitted, began, outcome, exit_code, signal, cpu_ms, peak, cost, currency)
VALUES ('c1', 12, 1760000900000, 'default', 'hello', '12', 'ada', 'batch', 'normal', 'solve', 'n[1-2]', 2, 4, 0, 8192, 1760000000000, 1760000100000, 'completed', 0, 0, 3100000, 6000, 1250000, 'EUR');
INSERT INTO cluster_jobs (cluster_id, until, current) VALUES ('c1', 1760001000000,
  '{"jobs":[{"number":13,"id":"13","user":"ada","queue":"batch","qos":"normal","name":"solve","nodes":"n1","node_count":1,"cpus":2,"submitted":"2025-10-09T09:10:00Z","began":"2025-10-09T09:10:01Z","tasks":1},{"number":14,"id":"14_[0-9]","user":"ada","queue":"batch","qos":"normal","name":"sweep","node_count":1,"cpus":1,"submitted":"2025-10-09T09:10:00Z","tasks":10,"reason":"Resources"}],"running":1,"waiting":10}');
UPDATE project SET prolog = 'echo export TMPDIR=/tmp/$SLURM_JOB_ID', epilog = '#!/bin/sh
rm -rf /tmp/$SLURM_JOB_ID' WHERE name = 'default';
INSERT INTO benchmark (id, project, cluster_id, cluster, account, plan, created_at, phase, phase_at, wake_at) VALUES
  ('b1', 'lab', 'c1', 'hello', 'ada', '{"suite": {"suite": "quick", "recipes": []}, "rounds": 1}', 1700000000000, 'pending', 1700000000000, 1700000000000);
INSERT INTO benchmark_round (benchmark_id, number, state, why, nodes, began, ended) VALUES ('b1', 0, 'ok', '', '{"n1": "m1"}', 1, 2);
INSERT INTO benchmark_step (benchmark_id, round, number, state, why, took, output) VALUES ('b1', 0, 0, 'invalid', 'it says FAILED', 5, '');
INSERT INTO benchmark_sample (benchmark_id, round, step, place, quantity, labels, node, value, unit, better) VALUES
  ('b1', 0, 0, 0, 'triad', '{"elements": "4"}', 'n1', 20.5, 'GB/s', 'higher');
UPDATE benchmark SET suite = 'quick', kept = 2000, peer = 'b2' WHERE id = 'b1';
UPDATE benchmark_round SET disturbed = 'n1 was throttled 2 times' WHERE benchmark_id = 'b1';
UPDATE benchmark SET begin_at = 1700000000000, every = 86400000 WHERE id = 'b1';
INSERT INTO benchmark_series (id, what) VALUES ('s1', '{"recipe": "stream", "quantity": "triad", "unit": "GB/s", "better": "higher"}');
INSERT INTO benchmark_point (benchmark_id, series, machine, cluster_id, at, value) VALUES ('b1', 's1', 'm1', 'c1', 1700000000000, 20.5);
INSERT INTO benchmark_change (id, series, cluster_id, machine, benchmark_id, at, was, became, causes, told_at) VALUES
  ('h1', 's1', '', 'm1', 'b1', 1700000000000, 30, 20.5, '["n1: kernel is 6.12, was 6.1"]', 1700000000001);
INSERT INTO benchmark_host (host, benchmark_id) VALUES ('', 'b1');
INSERT INTO machine (id, name, substrate, facts, desired, phase, phase_at, wake_at) VALUES
  ('m9', 'local-9', 'local', '{"host":"h9","arch":"arm64","cpu_model":"Neoverse","cpus":160,"cores":80,"sockets":2,"memory_mib":524288,"numa":[{"id":0,"cpus":"0-79","memory_mib":262144},{"id":1,"cpus":"80-159","memory_mib":262144}],"system":{"vendor":"Ampere","product":"Altra","serial":"1"},"disks":[{"name":"sda","size_gb":960,"kind":"ssd","healthy":true}],"nics":[{"name":"eth0","mac":"02:00:00:00:00:09","speed_mbps":1000,"numa":0,"up":true},{"name":"eth1","mac":"02:00:00:00:00:0a","speed_mbps":100000,"numa":0,"up":true}],"devices":[{"kind":"gpu","pci":"0000:01:00.0","vendor":"10de","id":"20b0","numa":0},{"kind":"hca","pci":"0000:02:00.0","vendor":"15b3","id":"101b","numa":0,"vfs":1},{"kind":"hca","pci":"0000:02:00.1","vendor":"15b3","id":"101c","numa":0,"parent":"0000:02:00.0"}]}',
   'service', 'available', 1760000009000, 1760000009000);
