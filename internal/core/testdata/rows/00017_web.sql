INSERT INTO web_login (hash, cookie, token, cluster_id, app, expires_at) VALUES ('cafe', 1, 't2', 'c1', 'jupyter', 9760000000000);
