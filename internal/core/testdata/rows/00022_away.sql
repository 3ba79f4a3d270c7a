INSERT INTO away (node_id, source_id, target_id, number, step, stage, source_does, target_does, kept, source_since, target_since, begun_at, guest) VALUES
  ('k3', 'h1', 'h2', 1, 1, 'receive', '', 'receive', 1, 1, 3, 1760000008600, '{"cluster":"c1","node":"k3","boot":1,"try":1,"name":"n3","machine":"big-1-g1","address":"10.77.7.4/16","mac":"02:00:00:00:07:04","image":"sha256:0000000000000000000000000000000000000000000000000000000000000000","cpus":2,"memory_mib":4096,"holding":{},"asked":{},"file":{}}');
UPDATE machine SET moves_at = 1760000008600 WHERE id = 'g1';
