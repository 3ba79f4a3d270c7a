package inspection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"muster/internal/kit/clock"
)

// ataPassword locks a disk while it is erased by ATA's security commands, which want one. It is no secret: erasing
// removes it; one that is found on a disk tells that an erasure was interrupted.
const ataPassword = "muster"

const ataLimit = time.Minute // for commands that answer at once

// Bits of word 59 (ACS-4, 7.13.6.23) and of word 128 (7.13.6.60) of ATA's IDENTIFY DEVICE data.
const (
	ataSanitizeOffered = 1 << 12
	ataCryptoScramble  = 1 << 13
	ataBlockErase      = 1 << 15

	ataSecurity      = 1 << 0
	ataEnabled       = 1 << 1
	ataLocked        = 1 << 2
	ataFrozen        = 1 << 3
	ataEnhancedErase = 1 << 5
)

// ataIdentity is what a disk says of its ways to erase.
type ataIdentity struct {
	sanitize, security     int           // words 59 and 128
	normalTime, enhanced   time.Duration // 0: it does not say
	passwordIsNotMusters   bool
	sanitizeIsNotAvailable string // why
}

// parseIdentify reads what hdparm --Istdout writes: the 256 words of IDENTIFY DEVICE, in hexadecimal.
func parseIdentify(text string) (ataIdentity, error) {
	const count = 256
	var words []int
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.ParseUint(word, 16, 16)
		if err == nil && len(word) == 4 && len(words) < count {
			words = append(words, int(n))
		}
	}
	if len(words) != count {
		return ataIdentity{}, fmt.Errorf("identify data of an ATA disk has %d words, expected %d", len(words), count)
	}
	return ataIdentity{
		sanitize: words[59], security: words[128],
		normalTime: ataTime(words[89]), enhanced: ataTime(words[90]),
	}, nil
}

// ataTime reads the time of an erase: in steps of two minutes, in 8 bits or, if the highest bit says so, in 15
// (ACS-4, 7.13.6.38). The greatest value means more than that.
func ataTime(word int) time.Duration {
	n := word & 0xff
	if word&0x8000 != 0 {
		n = word & 0x7fff
	}
	return time.Duration(n) * 2 * time.Minute
}

// askATA asks the disk, and removes the password that an interrupted erasure has left.
func (m *machine) askATA(ctx context.Context, d disk) (ataIdentity, error) {
	can, err := m.identify(ctx, d)
	if err != nil {
		return can, err
	}
	if can.sanitize&ataSanitizeOffered != 0 {
		if err := m.awaitATASanitize(ctx, d, func(string) {}); err != nil {
			can.sanitizeIsNotAvailable = err.Error()
		}
	}
	if can.security&ataEnabled == 0 {
		return can, nil
	}
	after, err := m.removePassword(ctx, d)
	after.passwordIsNotMusters = after.security&ataEnabled != 0
	after.sanitizeIsNotAvailable = can.sanitizeIsNotAvailable
	return after, err
}

func (m *machine) identify(ctx context.Context, d disk) (ataIdentity, error) {
	text, err := m.run(ctx, ataLimit, "hdparm", "--Istdout", d.path)
	if err != nil {
		return ataIdentity{}, fmt.Errorf("ask the disk: %w", err)
	}
	return parseIdentify(string(text))
}

// removePassword removes Muster's password and asks the disk how it is now: hdparm ends with status 0 also when the disk
// has refused.
func (m *machine) removePassword(ctx context.Context, d disk) (ataIdentity, error) {
	for _, command := range []string{"--security-unlock", "--security-disable"} {
		if _, err := m.run(ctx, ataLimit, "hdparm", "--user-master", "u", command, ataPassword, d.path); err != nil {
			m.logf("%s: %v", d.Name, err)
		}
	}
	return m.identify(ctx, d)
}

func offersATASanitize(command int) func(abilities) (bool, string) {
	return func(a abilities) (bool, string) {
		fits, why := ifOffered(a.disk.Bus == "sata" && a.disk.Kind != "virtual", a.ata.sanitize&ataSanitizeOffered != 0 &&
			a.ata.sanitize&command != 0)
		if fits && a.ata.sanitizeIsNotAvailable != "" {
			return false, a.ata.sanitizeIsNotAvailable
		}
		return fits, why
	}
}

func offersSecureErase(enhanced bool) func(abilities) (bool, string) {
	return func(a abilities) (bool, string) {
		s := a.ata.security
		fits, why := ifOffered(a.disk.Bus == "sata" && a.disk.Kind != "virtual", s&ataSecurity != 0 &&
			(!enhanced || s&ataEnhancedErase != 0))
		switch {
		case !fits:
			return false, why
		case a.ata.passwordIsNotMusters:
			return false, "somebody has set an ATA password on the disk; remove it with hdparm --security-disable, or the disk"
		case s&ataFrozen != 0:
			return false, "the firmware has frozen the disk's security commands; a firmware setting may allow them"
		}
		return true, ""
	}
}

// ataSecureErase sets a password, which the command wants, and erases. hdparm waits until the disk is done.
func ataSecureErase(enhanced bool) func(context.Context, *erasure, func(string)) error {
	return func(ctx context.Context, e *erasure, far func(string)) error {
		can, err := e.machine.identify(ctx, e.disk)
		if err != nil {
			return err
		}
		command, promised := "--security-erase", can.normalTime
		if enhanced {
			command, promised = "--security-erase-enhanced", can.enhanced
		}
		if promised > 0 {
			far(fmt.Sprintf("in one step of about %v", promised))
		}
		if _, err := e.machine.run(ctx, ataLimit, "hdparm", "--user-master", "u", "--security-set-pass", ataPassword,
			e.disk.path); err != nil {
			return fmt.Errorf("set a password: %w", err)
		}
		const slack, unsaid = time.Hour, 24 * time.Hour // disks announce less time than they need
		limit := 2*promised + slack
		if promised == 0 {
			limit = unsaid
		}
		_, err = e.machine.run(ctx, limit, "hdparm", "--user-master", "u", command, ataPassword, e.disk.path)
		ctx = context.WithoutCancel(ctx) // an erasure that was cut off must not leave the disk locked
		after, asked := e.machine.identify(ctx, e.disk)
		if asked != nil || after.security&ataEnabled == 0 {
			return errors.Join(err, asked)
		}
		err = errors.Join(err, errors.New("the disk has kept the password that an erasure removes"))
		if after, asked = e.machine.removePassword(ctx, e.disk); asked != nil || after.security&ataEnabled != 0 {
			err = errors.Join(err, asked, errors.New("and it could not be removed"))
		}
		return err
	}
}

func ataSanitize(command string) func(context.Context, *erasure, func(string)) error {
	return func(ctx context.Context, e *erasure, far func(string)) error {
		if _, err := e.machine.run(ctx, ataLimit, "hdparm", "--yes-i-know-what-i-am-doing", command, e.disk.path); err != nil {
			return err
		}
		return e.machine.awaitATASanitize(ctx, e.disk, far)
	}
}

// ataSanitizeStatus is what hdparm --sanitize-status says.
type ataSanitizeStatus struct {
	frozen, running, failed bool
	percent                 float64
}

func parseATASanitize(text string) (ataSanitizeStatus, error) {
	state := regexp.MustCompile(`State:\s*SD([0-4])`).FindStringSubmatch(text)
	if state == nil {
		return ataSanitizeStatus{}, fmt.Errorf("hdparm --sanitize-status says nothing of a state: %.80q", text)
	}
	s := ataSanitizeStatus{frozen: state[1] == "1", running: state[1] == "2", failed: state[1] == "3"}
	if progress := regexp.MustCompile(`Progress:\s*0x([0-9a-fA-F]{1,4})\b`).FindStringSubmatch(text); progress != nil {
		n, _ := strconv.ParseUint(progress[1], 16, 16) // the expression lets nothing else in
		s.percent = float64(n) * 100 / (1 << 16)
	}
	return s, nil
}

func (m *machine) awaitATASanitize(ctx context.Context, d disk, far func(string)) error {
	return await(ctx, far, func() (bool, float64, error) {
		text, err := m.run(ctx, ataLimit, "hdparm", "--sanitize-status", d.path)
		if err != nil {
			return false, 0, fmt.Errorf("ask how the sanitize goes: %w", err)
		}
		s, err := parseATASanitize(string(text))
		switch {
		case err != nil:
			return false, 0, err
		case s.frozen:
			return false, 0, errors.New("the firmware has frozen the disk's sanitize commands")
		case s.failed:
			return false, 0, errSanitizeFailed
		}
		return !s.running, s.percent, nil
	})
}

// scsiSanitize starts SCSI's SANITIZE (SBC-4, 5.30) and follows it by REQUEST SENSE.
func scsiSanitize(kind string) func(context.Context, *erasure, func(string)) error {
	return func(ctx context.Context, e *erasure, far func(string)) error {
		if _, err := e.machine.run(ctx, ataLimit, "sg_sanitize", kind, "--ause", "--early", "--quick", e.disk.path); err != nil {
			return err
		}
		if clock.Sleep(ctx, pollEvery) != nil { // until it shows
			return context.Cause(ctx)
		}
		return await(ctx, far, func() (bool, float64, error) {
			text, err := e.machine.run(ctx, ataLimit, "sg_requests", "--progress", e.disk.path)
			if err != nil {
				return false, 0, fmt.Errorf("ask how the sanitize goes: %w", err)
			}
			percent, running := parseSCSIProgress(text)
			return !running, percent, nil
		})
	}
}

// parseSCSIProgress reads "Progress indication: 12.34% done"; sg_requests writes nothing of the kind when nothing runs.
func parseSCSIProgress(text []byte) (percent float64, running bool) {
	_, rest, running := bytes.Cut(text, []byte("rogress indication:"))
	if !running {
		return 0, false
	}
	number, _, _ := bytes.Cut(rest, []byte("%"))
	percent, err := strconv.ParseFloat(strings.TrimSpace(string(number)), 64)
	if err != nil || !(percent >= 0 && percent <= 100) { // not even if it is no number
		percent = 0
	}
	return percent, true
}
