UPDATE machine SET ports = '["swp1"]' WHERE id = 'm5';
