INSERT INTO web_login (hash, cookie, token, cluster_id, app, expires_at) VALUES ('c0de', 1, 't2', NULL, '', 9760000000000);
INSERT INTO audit (id, at, person, token, door, action, project, object, outcome, remote, request) VALUES
  ('a-console', 1760000000000, 'ada', 't2', 'console', 'sign-in', '', '', '200', '127.0.0.1', 'r9');
INSERT INTO cluster_seen (cluster_id, at) VALUES ('c1', 1760000002000);
