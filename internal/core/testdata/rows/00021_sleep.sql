UPDATE cluster SET keeps_memory = 1 WHERE id = 'c1';
