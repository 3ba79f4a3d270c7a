UPDATE cluster SET starts_at = 1760000000000, ends_at = 9760000000000, lead = 60000, warned = 3600000 WHERE id = 'c1';
