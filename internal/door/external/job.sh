# Asks a login host with Slurm about one job, and has it begun if it has not been. Which one, the lines before this say.
say() { printf '\n@%s %s\n' "$mark" "$*"; }

# submit begins the job. What ended runs and earlier rounds of this one have left goes.
submit() {
	local said options=(--parsable --no-requeue --exclusive --mem=0 -D "$dir" -o "$dir/output" -J "$name" -N "$nodes" -t "$minutes")
	find "$HOME/.muster-bench" -mindepth 1 -maxdepth 1 -mtime +8 -exec rm -rf -- {} + 2>/dev/null
	rm -rf -- "$HOME/.muster-bench/${id%.*}".*
	mkdir -p -- "$dir" && base64 -d <<<"$script" >"$dir/script" && cat >"$dir/batch" <<-'END' ||
		#!/bin/bash
		echo "$EPOCHREALTIME" >began
		echo $(scontrol show hostnames "$SLURM_JOB_NODELIST") >nodes
		bash script
		echo "$? $EPOCHREALTIME" >status.part && mv status.part status
	END
		{ say refused "$dir cannot be written"; return 1; }
	[[ -z $queue ]] || options+=(-p "$queue")
	[[ -z $reservation ]] || options+=(--reservation "$reservation")
	if ! said=$(sbatch "${options[@]}" "$dir/batch" 2>&1); then
		rm -rf -- "$dir"
		say refused "${said##*$'\n'}"
		return 1
	fi
	said=${said##*$'\n'}
	echo "${said%%;*}" >"$dir/job"
	say job "${said%%;*}"
	say waits
}

main() {
	umask 077
	local me dir=$HOME/.muster-bench/$id name=muster-$id seen state why job outcome
	me=$(id -un)
	[[ -z $cancel ]] || scancel -u "$me" -n "$name" 2>/dev/null
	seen=$(squeue -h -u "$me" -n "$name" -o '%T|%r|%A' 2>&1) || { say silent "${seen##*$'\n'}"; return; }
	if [[ -z $seen && ! -e $dir/job ]]; then
		[[ -z $cancel ]] || { say ended cancelled; return; }
		submit
		return
	fi
	IFS='|' read -r state why job <<<"$seen"
	[[ -e $dir/job ]] || echo "$job" >"$dir/job"
	job=$(<"$dir/job")
	say job "$job"
	[[ ! -e $dir/began ]] || say began "$(<"$dir/began")"
	[[ ! -e $dir/nodes ]] || say nodes "$(<"$dir/nodes")"
	if [[ -n $seen ]]; then
		case $state in
		PENDING | CONFIGURING) say waits "$why" ;;
		*) say runs ;;
		esac
		return
	fi
	if [[ -e $dir/status ]]; then
		read -r state why <"$dir/status"
		outcome=failed
		[[ $state != 0 ]] || outcome=ok
		say exit "$state" "$why"
	else
		state=$(scontrol -o show job "$job" 2>/dev/null)
		state=${state#* JobState=}
		say told "${state%% *}"
		case ${state%% *}/$cancel in
		CANCELLED/* | */1) outcome=cancelled ;;
		TIMEOUT/* | DEADLINE/*) outcome=timed-out ;;
		*)
			outcome=lost
			[[ ! -s $dir/nodes ]] ||
				say down $(sinfo -a -h -N -n "$(tr ' ' , <"$dir/nodes")" -t down,fail -o %N 2>/dev/null | sort -u)
			;;
		esac
	fi
	say ended "$outcome"
	say output
	head -c "$most" -- "$dir/output" 2>/dev/null
}

main </dev/null
exit 0
