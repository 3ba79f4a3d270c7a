UPDATE cluster SET aim = 2, good = '{}', stopped = 2, stopped_why = 'node n2 did not come back' WHERE id = 'c1';
