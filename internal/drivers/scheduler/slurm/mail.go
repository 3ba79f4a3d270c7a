package slurm

import (
	"io/fs"
	"strings"

	"muster/internal/protocol"
)

// slurmctld starts a program for each letter, as its own user: mailProgram -s SUBJECT RECIPIENT. That leaves it to the agent.
const (
	mailProgram = "/run/muster/mail-program"
	mailDomains = "/run/muster/mail-domains" // that the site sends to, a line each, for the submit script
	mostMail    = "1000"                     // that wait
)

const mailScript = "#!/bin/bash\n" + written + `umask 077
cd ` + protocol.MailDir + ` || exit 1
letters=(*` + protocol.MailName + `)
[ "${#letters[@]}" -lt ` + mostMail + ` ] || exit 1
file=$(mktemp .XXXXXXXX) || exit 1
printf '%s\n' "${3//$'\n'/ }" "${SLURM_JOB_USER//$'\n'/ }" "${2//$'\n'/ }" > "$file" && mv "$file" "${file#.}` + protocol.MailName + `"
`

// putMail writes what a head needs to send mail, or that it sends none.
func (d *driver) putMail(put func(name, content string, mode fs.FileMode, owner string) bool, config *protocol.Config) error {
	if len(config.MailTo) == 0 {
		put(mailDomains, "", 0o644, "")
		return nil
	}
	err := d.Files.Directory(protocol.MailDir, 0o700, User)
	put(mailProgram, mailScript, 0o755, "")
	put(mailDomains, strings.Join(config.MailTo, "\n")+"\n", 0o644, "")
	return err
}
