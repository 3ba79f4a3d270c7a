UPDATE project SET prolog = 'echo export TMPDIR=/tmp/$SLURM_JOB_ID', epilog = '#!/bin/sh
rm -rf /tmp/$SLURM_JOB_ID' WHERE name = 'default';
