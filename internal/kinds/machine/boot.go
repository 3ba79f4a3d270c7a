package machine

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Boot is what a machine boots now, and how far it is. A machine that has none is to be off.
type Boot struct {
	MachineID string
	Subject   string            // ID of the node, or of the machine itself for an inspection
	Number    int64             // of the subject's boots
	Image     string            // digest
	File      protocol.BootFile // without its token
	Disk      bool              // the root is on the machine's disk
	Erase     bool              // an inspection that erases first
	PoweredAt time.Time         // when it was switched on; zero: not yet
	Scripts   int               // times that its boot script was handed out
	JoinedKey string            // of an inspection's agent
	Ending    bool              // its agent is told to end
	Step      protocol.BootStep
	Detail    string
	HeardAt   time.Time // last sign of life, or when one was asked for
	StepAt    time.Time // when it came to this step, or began
	Findings  *protocol.Findings
}

// AskedAgain is the detail of a boot whose machine asked what to boot after its agent had come.
const AskedAgain = "asked again what to boot"

// Inspection says that the boot is one of the machine itself.
func (b Boot) Inspection() bool { return b.Subject == b.MachineID }

const bootColumns = `machine_id, subject, number, image, file, disk, erase, powered_at, scripts, joined_key, ending, step, detail, heard_at, step_at, findings`

func scanBoot(r core.Scanner) (b Boot, err error) {
	err = r.Scan(&b.MachineID, &b.Subject, &b.Number, &b.Image, core.JSON(&b.File), &b.Disk, &b.Erase, core.Time(&b.PoweredAt),
		&b.Scripts, &b.JoinedKey, &b.Ending, &b.Step, &b.Detail, core.Time(&b.HeardAt), core.Time(&b.StepAt),
		core.JSON(&b.Findings))
	return b, wrap.Errorf(err, "boot of machine %s", b.MachineID)
}

// BootOn finds what a machine boots; core.ErrNotFound if nothing.
func BootOn(ctx context.Context, tx *core.Tx, machine string) (Boot, error) {
	return core.One(ctx, tx, scanBoot, `SELECT `+bootColumns+` FROM boot WHERE machine_id = $1`, machine)
}

// BootOf finds the boot of a subject; core.ErrNotFound if there is none.
func BootOf(ctx context.Context, tx *core.Tx, subject string) (Boot, error) {
	return core.One(ctx, tx, scanBoot, `SELECT `+bootColumns+` FROM boot WHERE subject = $1`, subject)
}

// Boots lists all.
func Boots(ctx context.Context, tx *core.Tx) ([]Boot, error) {
	boots, err := core.List(ctx, tx, scanBoot, `SELECT `+bootColumns+` FROM boot ORDER BY machine_id`)
	return boots, wrap.Errorf(err, "list boots")
}

// BeginBoot makes this what the machine boots, in place of whatever it booted before. It reports false, and changes
// nothing, if it is not the boot that the subject is at: the caller has been overtaken. It may be repeated until the machine is
// switched on for it; that is no sign of life.
func BeginBoot(ctx context.Context, tx *core.Tx, b Boot) (bool, error) {
	var current int64
	err := tx.Row(ctx, `SELECT COALESCE((SELECT boot FROM node WHERE id = $1 AND machine_id = $2), (SELECT boot FROM machine
		WHERE id = $1), -1)`, b.Subject, b.MachineID).Scan(&current)
	if err != nil || current != b.Number {
		return false, err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM boot WHERE (machine_id = $1 OR subject = $2) AND NOT (machine_id = $1 AND subject
		= $2 AND number = $3 AND powered_at = 0)`,
		b.MachineID, b.Subject, b.Number); err != nil {
		return false, fmt.Errorf("begin a boot of %s: %w", b.Subject, err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO boot (machine_id, subject, number, image, file, disk, erase, heard_at, step_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, now_ms(), now_ms())
		ON CONFLICT (machine_id) DO UPDATE SET image = excluded.image, file = excluded.file, disk = excluded.disk,
		erase = excluded.erase`, b.MachineID, b.Subject, b.Number, b.Image, core.JSON(b.File),
		core.Flag(b.Disk), core.Flag(b.Erase))
	if err != nil {
		return false, fmt.Errorf("begin a boot of %s: %w", b.Subject, err)
	}
	return true, nil
}

// WaitForOff notes that a machine is told to be off, since the first time, or with false that this is not waited for any more.
func WaitForOff(ctx context.Context, tx *core.Tx, machine string, waits bool) error {
	_, err := tx.Exec(ctx, `UPDATE machine SET off_since = CASE WHEN $2 = 0 THEN 0 WHEN off_since = 0 THEN now_ms() ELSE
		off_since END WHERE id = $1`,
		machine, core.Flag(waits))
	return wrap.Errorf(err, "note that machine %s is to be off", machine)
}

// OffSince is since when a machine is told to be off and was not yet seen so; zero if that is not waited for.
func OffSince(ctx context.Context, tx *core.Tx, machine string) (since time.Time, err error) {
	err = tx.Row(ctx, `SELECT off_since FROM machine WHERE id = $1`, machine).Scan(core.Time(&since))
	return since, wrap.Errorf(err, "since when machine %s is to be off", machine)
}

// MarkBoot notes that the boot has reached a step: a sign of life, unless it is there already. It reports false if the
// subject is at another boot.
func MarkBoot(ctx context.Context, tx *core.Tx, subject string, number int64, step protocol.BootStep, detail string) (bool,
	error) {
	n, err := tx.Exec(ctx, `UPDATE boot SET step = $3, detail = $4, step_at = CASE WHEN step = $3 THEN step_at ELSE now_ms() END,
		heard_at = CASE WHEN step = $3 AND detail = $4 THEN heard_at ELSE now_ms() END,
			scripts = scripts + CASE WHEN $3 = 'script' THEN 1 ELSE 0 END
		WHERE subject = $1 AND number = $2`, subject, number, string(step), detail)
	return n == 1, wrap.Errorf(err, "note how far %s is", subject)
}

// PowerBoot notes that the boot's machine was switched on; the machine itself may have been faster to say more.
func PowerBoot(ctx context.Context, tx *core.Tx, subject string, number int64) error {
	_, err := tx.Exec(ctx, `UPDATE boot SET powered_at = now_ms(), step_at = CASE WHEN step = '' THEN now_ms() ELSE step_at END,
		step = CASE WHEN step = '' THEN 'power' ELSE step END,
		detail = CASE WHEN step = '' THEN 'is switched on' ELSE detail END WHERE subject = $1 AND number = $2`, subject, number)
	return wrap.Errorf(err, "note that the machine of %s is on", subject)
}

// UseInspectionToken is node.UseToken for the boot of an inspection.
func UseInspectionToken(ctx context.Context, tx *core.Tx, machine string, number int64, key string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE boot SET joined_key = $3, heard_at = now_ms(), step_at = CASE WHEN step = 'agent' THEN step_at
		ELSE now_ms() END, step = 'agent', detail = ''
		WHERE machine_id = $1 AND subject = $1 AND number = $2 AND ending = 0 AND joined_key IN ('', $3)`, machine, number, key)
	return n == 1, wrap.Errorf(err, "join the inspection of %s", machine)
}

// SaveFindings notes what an inspection says, and that it lives. It reports false if the machine is at another boot, or if
// that was joined with another key.
func SaveFindings(ctx context.Context, tx *core.Tx, machine string, number int64, key string, f protocol.Findings) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE boot SET findings = $3, heard_at = now_ms() WHERE subject = $1 AND number = $2 AND ending
		= 0 AND joined_key = $4 AND joined_key <> ''`,
		machine, number, core.JSON(f), key)
	return n == 1, wrap.Errorf(err, "save the findings of %s", machine)
}

// EndBoot tells the agent of a boot, or of any older one, to end.
func EndBoot(ctx context.Context, tx *core.Tx, subject string, number int64) error {
	_, err := tx.Exec(ctx, `UPDATE boot SET ending = 1 WHERE subject = $1 AND number <= $2`, subject, number)
	return wrap.Errorf(err, "end the boot of %s", subject)
}

// DropBoot forgets a boot, or any older one, of a machine that was seen to be off.
func DropBoot(ctx context.Context, tx *core.Tx, subject string, number int64) error {
	_, err := tx.Exec(ctx, `DELETE FROM boot WHERE subject = $1 AND number <= $2`, subject, number)
	return wrap.Errorf(err, "drop the boot of %s", subject)
}
