INSERT INTO pass (at, machine_id, machine, class, alike, cluster_id, cluster, node_id, node, boot, number, image, took, results, verdict, text) VALUES
  (1760000002000, 'm2', 'host-2', 'local', 'amd64 4', 'c1', 'cfd', 'k2', 'n2', 2, 1,
   'sha256:0000000000000000000000000000000000000000000000000000000000000000', 900000, '[]', 'passed', '');
UPDATE node SET test = 1 WHERE id = 'k2';
UPDATE observed SET test = '{"number":1,"took":900000000,"measures":[{"quantity":"memory","value":10.5}]}' WHERE node_id = 'k2';
