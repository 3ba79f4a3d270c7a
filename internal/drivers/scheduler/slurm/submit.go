package slurm

import (
	"fmt"
	"path/filepath"
	"strings"
)

// slurmctld runs a script for each new job, whoever submits it and by whatever program. Slurm's own limits would need its
// accounting database, or a list of all who may submit, including accounts that the image knows from elsewhere. The script is
// not run for jobs in the queue, jobs that are queued again, or steps of jobs that run.
const (
	submitFile  = "/etc/slurm/job_submit.lua"
	refusedFile = "/run/muster/refused" // a user's number on a line; the script reads it for each job
	// submitPlugin is what Slurm needs to run the script.
	submitPlugin = "/usr/lib/*/slurm*/job_submit_lua.so"
)

// SubmitScript is job_submit.lua. slurmctld loads it again only after a change in a later second, so what changes is in a file
// of its own. A user without an account has no name here, or is nobody: so are those who left before the head's last boot.
//
// A job that asks for nodes and CPUs alone fits in its queue if that has as many; of others the script cannot say. See room.
const SubmitScript = `-- Written by muster; changes are overwritten.
local unset = {[""] = true, [slurm.NO_VAL16] = true, [slurm.NO_VAL] = true, [slurm.NO_VAL64] = true}

local function asks(job, field)
	local value = job[field]
	return value and not unset[value] and value
end

local function plain(job)
	for _, field in ipairs{"cpus_per_task", "ntasks_per_node", "ntasks_per_socket", "ntasks_per_core", "threads_per_core",
		"min_mem_per_cpu", "min_mem_per_node", "pn_min_tmp_disk", "features", "req_nodes", "exc_nodes",
		"tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task"} do
		if asks(job, field) then
			return false
		end
	end
	return true
end

-- Of queues that may get more nodes, only what surely fits is left to Slurm.
local function may_be_too_large(job, room)
	local queues, grows, fits = "," .. (job.partition or "") .. ",", false, false
	for line in room:lines() do
		local queue, nodes, cpus = line:match("^(%S*) (%d+) (%d+)$")
		if queue and queues:find("," .. queue .. ",", 1, true) then
			grows = true
			fits = fits or plain(job) and (asks(job, "min_nodes") or 1) <= tonumber(nodes) and
				(asks(job, "min_cpus") or 1) <= tonumber(cpus)
		end
	end
	return grows and not fits
end

local function note(job)
	local room = io.open("` + roomFile + `")
	if not room then
		return
	end
	local held = ""
	if job.priority ~= 0 and may_be_too_large(job, room) then
		job.priority, held = 0, "` + heldMark + `"
	end
	room:close()
	job.admin_comment = string.format("max_nodes=%d,tasks=%d%s", asks(job, "max_nodes") or 0, asks(job, "num_tasks") or 0, held)
end

local function refuse()
	slurm.log_user("you are no user of this cluster any more")
	return slurm.ESLURM_ACCESS_DENIED
end

function slurm_job_submit(job, partitions, uid)
	if uid ~= 0 and (not job.user_name or job.user_name == "nobody") then
		return refuse()
	end
	local refused = io.open("` + refusedFile + `")
	if not refused then
		slurm.log_user("` + refusedFile + ` cannot be read on the head")
		return slurm.ERROR
	end
	for line in refused:lines() do
		if tonumber(line) == uid then
			refused:close()
			return refuse()
		end
	end
	refused:close()
	if job.mail_type and job.mail_type > 0 then
		slurm.log_user("this cluster sends no mail: --mail-type has no effect; sbatch --wait and muster run wait for the end of a job")
	end
	note(job)
	return slurm.SUCCESS
end

function slurm_job_modify(change, job, partitions, uid)
	return slurm.SUCCESS
end
`

// asks says that the image's Slurm can run the script.
func (d *driver) asks() bool {
	found, err := filepath.Glob(d.Files.Path(submitPlugin))
	return err == nil && len(found) > 0
}

// Refuse has the script refuse new jobs of these users.
func (d *driver) Refuse(users []int) error {
	var b strings.Builder
	for _, uid := range users {
		fmt.Fprintln(&b, uid)
	}
	changed, err := d.Files.Write(refusedFile, []byte(b.String()), 0o644, "")
	if err != nil {
		return fmt.Errorf("refuse new jobs of those who left: %w", err)
	}
	if changed && len(users) > 0 && !d.asks() {
		d.Printf("jobs of those who left can submit others: the image has no %s", filepath.Base(submitPlugin))
	}
	return nil
}
