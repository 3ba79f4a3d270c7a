INSERT INTO session (id, person, credential, gateway, kind, place_id, place, project, what, remote, began_at, seen_at, ended_at, received, sent, outcome) VALUES
  ('w1', 'ada', 'SHA256:dddd', 'controller-1', 'cluster', 'c1', 'cfd', 'lab', 'shell', '192.0.2.1', 1760000006000, 1760000006500, 1760000006500, 10, 20, 'ended'),
  ('w2', 'ada', 'SHA256:dddd', 'controller-1', 'cluster', 'c1', 'cfd', 'lab', 'sftp', '192.0.2.1', 1760000006000, 1760000006500, NULL, 10, 20, '');
INSERT INTO gateway_key (line, private, from_at) VALUES ('ssh-ed25519 AAAA gateway', 'in clear', 1760000000000);
