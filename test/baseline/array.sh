# array.sh N, on the head of a cluster: an array of N jobs of one second each. Prints "jobs_per_second N R".
begun=$EPOCHREALTIME
sbatch -Q -o /dev/null --array="1-$1" --wrap 'sleep 1'
until [ -z "$(squeue -h)" ]; do sleep 0.5; done
awk -v n="$1" -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN {printf "jobs_per_second %d %.3f\n", n, n / (b - a)}'
