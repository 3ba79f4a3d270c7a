UPDATE machine SET facts = '{"arch":"amd64","cpus":8,"memory_mib":16384}', summary = '{"arch":"amd64","cpus":8,"memory_mib":16384}' WHERE id = 'm9';
