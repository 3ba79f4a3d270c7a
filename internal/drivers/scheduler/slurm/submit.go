package slurm

import (
	"fmt"
	"path/filepath"
	"strings"
)

// slurmctld runs a script for each new job, whichever user submits it and by whatever program. Slurm's own limits would need its
// accounting database, or a list of all who may submit, including accounts that the image knows from elsewhere. The script is
// not run for jobs in the queue, jobs that are queued again, or steps of jobs that run.
const (
	submitFile  = "/etc/slurm/job_submit.lua"
	refusedFile = "/run/muster/refused" // a user's number on a line; the script reads it for each job
	// submitPlugin is what Slurm needs to run the script.
	submitPlugin = "/usr/lib/*/slurm*/job_submit_lua.so"
)

// SubmitScript is job_submit.lua. slurmctld loads it again only after a change in a later second, so what changes is in a file
// of its own. A user without an account has no name here, or is `nobody`: so are those who left before the head's last boot.
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

-- The queues that the job may run in, with their room.
local function queues_of(job)
	local file, found = io.open("` + roomFile + `"), {}
	if not file then
		return found
	end
	local named = job.partition and "," .. job.partition .. ","
	for line in file:lines() do
		local q = {}
		q.name, q.default, q.nodes, q.cpus, q.most, q.node_cpus, q.node_memory =
			line:match("^(%S+) (%d) (%d+) (%d+) (%d+) (%d+) (%d+)$")
		for field, value in pairs(q) do
			q[field] = field == "name" and value or tonumber(value)
		end
		if q.name and (named and named:find("," .. q.name .. ",", 1, true) or not named and q.default == 1) then
			found[#found + 1] = q
		end
	end
	file:close()
	return found
end

-- Of queues that may get more nodes, only what surely fits is left to Slurm.
local function may_be_too_large(job, queues)
	local grows, fits = false, false
	for _, q in ipairs(queues) do
		if q.nodes < q.most then
			grows = true
			fits = fits or plain(job) and (asks(job, "min_nodes") or 1) <= q.nodes and (asks(job, "min_cpus") or 1) <= q.cpus
		end
	end
	return grows and not fits
end

-- What the job asks for and the queue will not have. Of nodes that are still to come nobody knows the size.
local function excess(job, q)
	local nodes, cpus = asks(job, "min_nodes") or 1, asks(job, "cpus_per_task") or 1
	local memory = asks(job, "min_mem_per_node") or (asks(job, "min_mem_per_cpu") or 0) * cpus
	if nodes > q.most then
		return string.format("%d nodes, but queue %s may have %d", nodes, q.name, q.most)
	elseif q.nodes < q.most or q.nodes == 0 then
		return nil
	elseif cpus > q.node_cpus then
		return string.format("%d CPUs for one task, but nodes of queue %s have %d", cpus, q.name, q.node_cpus)
	elseif memory > q.node_memory then
		return string.format("%d MiB of memory on one node, but nodes of queue %s have %d", memory, q.name, q.node_memory)
	elseif (asks(job, "num_tasks") or 1) * cpus > q.cpus then
		return string.format("%d CPUs, but queue %s has %d", asks(job, "num_tasks") * cpus, q.name, q.cpus)
	end
end

-- What becomes of a job that no queue has enough for is Slurm's to say; the numbers it does not say.
local function say_excess(job, queues)
	local texts = {}
	for _, q in ipairs(queues) do
		texts[#texts + 1] = excess(job, q)
	end
	if #texts > 0 and #texts == #queues then
		slurm.log_user("it asks for " .. table.concat(texts, "; for "))
	end
end

local function note(job, queues)
	local held = ""
	if job.priority ~= 0 and may_be_too_large(job, queues) then
		job.priority, held = 0, "` + heldMark + `"
	end
	job.admin_comment = string.format("max_nodes=%d,tasks=%d%s", asks(job, "max_nodes") or 0, asks(job, "num_tasks") or 0, held)
end

-- Who asks for mail that is not sent is told.
local function say_mail(job)
	if not job.mail_type or job.mail_type == 0 then
		return
	end
	local file, domains = io.open("` + mailDomains + `"), {}
	if file then
		for line in file:lines() do
			domains[#domains + 1] = line
			domains[line:lower()] = true
		end
		file:close()
	end
	local to = (job.mail_user or ""):match("@(.*)$")
	if #domains == 0 then
		slurm.log_user("this cluster sends no mail: --mail-type has no effect; sbatch --wait and muster run wait for the end of a job")
	elseif to and not domains[to:lower()] then
		slurm.log_user("no mail is sent to " .. job.mail_user .. ": this site writes to addresses of " ..
			table.concat(domains, ", ") .. " alone")
	end
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
	say_mail(job)
	local queues = queues_of(job)
	say_excess(job, queues)
	note(job, queues)
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
