UPDATE machine SET off_since = 1760000013000 WHERE id = 'm5';
