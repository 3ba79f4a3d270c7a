#!/bin/bash
mark=@MARK@ most=@MOST@ left=@LEFT@ # bytes that are kept of one text, and of all that are still to come
export programs='@PROGRAMS@'
unset SLURM_NTASKS_PER_NODE # of this job, which steps of more tasks are warned of
say() { printf '\n@%s %s\n' "$mark" "$*" 2>/dev/null || exit; } # a line that was cut is the last
find "$HOME" -maxdepth 1 -name '.muster-bench.*' -mtime +2 -exec rm -rf -- {} + # of jobs that were killed
root=$(mktemp -d "$HOME/.muster-bench.XXXXXXXX") || exit
trap 'cd /; rm -rf -- "$root"' EXIT
trap 'exit 143' TERM

# node says how this node fares and, of all, what it is: lines NODE KEY VALUE. What cannot be read there is left out.
node() {
	local name=${SLURMD_NODENAME:-$HOSTNAME} key value file weak=() cured=() pages= rate=0
	local -A sockets=()
	put() { [[ -z $2 ]] || echo "$name $1 $2"; }
	at() { { read -r value <"$2" && put "$1" "$value"; } 2>/dev/null; }
	at stat /proc/stat
	at load /proc/loadavg
	for file in /proc/pressure/*; do
		at "pressure.${file##*/}" "$file"
	done
	at throttled /sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count
	for file in /sys/class/infiniband/*/ports/*/counters/{symbol_error,link_downed}; do
		key=${file#/sys/class/infiniband/}
		at "link.${key//\//.}" "$file"
	done
	[[ $1 == all ]] || return 0
	while IFS=: read -r key value; do
		case $key in
		'model name'*) put cpu "${value# }" ;;
		microcode*) put microcode "${value# }" ;;
		'cpu MHz'*) rate=${value# } ;;
		'') break ;;
		esac
	done </proc/cpuinfo
	while read -r key value; do
		case $key in
		MemTotal:) put memory "$value" ;;
		HugePages_Total:) pages=$value ;;
		Hugepagesize:) put huge-pages "$pages of $value" ;;
		esac
	done </proc/meminfo
	while read -r key value; do
		[[ $key != Cpus_allowed_list: ]] || put allowed-cpus "$value"
	done </proc/self/status
	# the highest clock, in MHz; where the kernel does not set it, as in guests, that of the time stamp counter, in tens
	{ read -r value </sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq && rate=$((value / 1000)); } 2>/dev/null ||
		rate=$(((${rate%.*} + 5) / 10 * 10))
	((rate == 0)) || put clock-rate "$rate"
	put cpus "$(nproc)"
	for file in /sys/devices/system/cpu/cpu*/topology/physical_package_id; do
		{ read -r value <"$file" && sockets[$value]=1; } 2>/dev/null
	done
	put sockets "${#sockets[@]}"
	set -- /sys/devices/system/node/node[0-9]*
	put numa-nodes "$#"
	case $(systemd-detect-virt --vm 2>/dev/null) in
	'') ;;
	qemu) put virtualization 'emulated in software' ;; # QEMU without KVM
	*) put virtualization "$(systemd-detect-virt --vm)" ;;
	esac
	at kernel /proc/sys/kernel/osrelease
	at command-line /proc/cmdline
	at smt /sys/devices/system/cpu/smt/active
	at governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
	at boost /sys/devices/system/cpu/cpufreq/boost
	at no-turbo /sys/devices/system/cpu/intel_pstate/no_turbo
	at transparent-huge-pages /sys/kernel/mm/transparent_hugepage/enabled
	at numa-balancing /proc/sys/kernel/numa_balancing
	at clock /sys/devices/system/clocksource/clocksource0/current_clocksource
	at product /sys/class/dmi/id/product_name
	for file in /sys/devices/system/cpu/vulnerabilities/*; do
		{ read -r value <"$file"; } 2>/dev/null || continue
		case $value in
		Vulnerable*) weak+=("${file##*/}") ;;
		Mitigation*) cured+=("${file##*/}") ;;
		esac
	done
	put mitigated "${cured[*]}"
	put vulnerable "${weak[*]}"
	for file in /sys/class/net/*; do
		[[ -e $file/mtu && $file != */lo ]] || continue
		at "mtu.${file##*/}" "$file/mtu"
		{ read -r value <"$file/speed" && ((value > 0)) && put "speed.${file##*/}" "$value"; } 2>/dev/null # -1: not known
		while IFS=: read -r key value; do
			case $key in driver | firmware-version) put "$key.${file##*/}" "${value# }" ;; esac
		done < <(ethtool -i "${file##*/}" 2>/dev/null)
	done
	for file in /sys/class/infiniband/*; do
		[[ -e $file ]] || continue
		at "firmware-version.${file##*/}" "$file/fw_ver"
		[[ ! -e $file/device/physfn ]] || put "function.${file##*/}" virtual
	done
	for file in /sys/class/infiniband/*/ports/*; do
		key=${file#/sys/class/infiniband/}
		at "rate.${key//\//.}" "$file/rate"
		at "partition.${key//\//.}" "$file/pkeys/0"
	done
	for file in $programs; do
		value=$(sha256sum 2>/dev/null <"$(command -v "$file")") && put "program.$file" "${value%% *}"
	done
	put blas "$(OPENBLAS_VERBOSE=2 dgemm 1 1 2>&1 | sed -n 's/^Core: //p')"
	put mpi "$(mpirun --version 2>/dev/null | head -1)"
	put scheduler "$(srun --version 2>/dev/null)"
}
export -f node
# look has all nodes of the job say it.
look() {
	local start=()
	command -v srun >/dev/null && start=(srun -N "$SLURM_JOB_NUM_NODES" -n "$SLURM_JOB_NUM_NODES")
	say look "$(timeout -k 5 60 "${start[@]}" bash -c "node $1" 2>/dev/null </dev/null | head -c 1048576 | base64 -w0)"
}
# there says whether a program is, or a file, whose path may have a ~ at its begin and * anywhere.
there() {
	case $1 in
	*/*) compgen -G "${1/#\~/$HOME}" ;;
	*) command -v "$1" ;;
	esac >/dev/null
}
# share sets allowed to how many bytes are kept of the next text.
share() { allowed=$((left < 0 ? 0 : left < most ? left : most)); }
# step NUMBER LIMIT NEEDS WANTED NAME=TEXT...: the files, and the command among them, are in base64.
step() {
	local number=$1 limit=$2 needs wanted=$4 began ended file allowed told status text lines=()
	read -ra needs <<<"$3" # by which no * finds files
	shift 4
	for file in "${needs[@]}"; do
		there "$file" || { say missing "$number" "$file"; return; }
	done
	mkdir -- "$root/$number" && cd -- "$root/$number" || { say unwritten "$number"; return; }
	for file; do
		base64 -d <<<"${file#*=}" >"${file%%=*}" || { say unwritten "$number"; return; }
	done
	share
	say begin "$number"
	began=$EPOCHREALTIME
	# The text goes to the job's. What is known of it goes into a variable: a file would need room on a disk that may be full.
	{
		told=$(
			{
				timeout -k 10 "$limit" bash @COMMAND@ </dev/null 2>&1 3>&- & # which is a process group of its own
				wait $!
				status=$?
				# whatever it has left running: srun then ends its tasks, which would have the CPUs of the next steps
				if kill -- -$!; then
					for _ in {1..20}; do
						kill -0 -- -$! || break
						sleep 0.1
					done
					kill -KILL -- -$!
				fi
				exit "$status"
			} 2>/dev/null | {
				head -c "$allowed" | tee >(wc -c) 2>/dev/null >&3 || echo unkept
				(($(head -c 1 | wc -c) == 0)) || echo more
				cat >/dev/null
			}
			exit "${PIPESTATUS[0]}"
		)
		status=$?
	} 3>&1
	ended=$EPOCHREALTIME
	((allowed == most)) || [[ $told != *more* ]] || lines+=("cut $number")
	[[ $told != *unkept* ]] || lines+=("unkept $number")
	((left -= 10#0${told//[!0-9]/})) # nothing, where no count could be made
	for file in $wanted; do
		[[ -f $file ]] || continue
		share
		text=$(set -o pipefail; head -c "$allowed" -- "$file" | base64 -w0) || { lines+=("unkept $number"); continue; }
		lines+=("file $number $file $text")
		((left -= ${#text}))
		((allowed == most || $(stat -c %s -- "$file") <= allowed)) || lines+=("cut $number")
	done
	cd / && rm -rf -- "${root:?}/$number" # before its text goes on: it may have filled the disk
	say end "$number" "$status" "$began" "$ended"
	for text in "${lines[@]}"; do
		say "$text"
	done
}
look all
