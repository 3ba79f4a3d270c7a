UPDATE machine SET rack = 'r01', unit = 12, height = 2, slot = 3 WHERE id = 'm1';
