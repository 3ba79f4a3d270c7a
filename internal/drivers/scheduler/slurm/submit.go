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

// submitScript is job_submit.lua. slurmctld loads it again only after a change in a later second, so what changes is in a file
// of its own. A user without an account has no name here, or is nobody: so are those who left before the head's last boot.
const submitScript = `-- Written by muster; changes are overwritten.
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
