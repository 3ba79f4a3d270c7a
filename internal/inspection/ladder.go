package inspection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
)

// method is one way to erase a disk.
type method struct {
	name   string
	zeroes bool // the disk reads as zeros afterwards; else as anything but what was there
	// offered says whether the method fits a disk; if it does not although the disk is of the right kind, why.
	offered func(abilities) (fits bool, why string)
	// do erases. It returns when the disk has said that it is done; that proves nothing yet.
	do func(ctx context.Context, e *erasure, far func(string)) error
}

// abilities is what a disk says that it can do.
type abilities struct {
	disk  disk
	nvme  nvmeController // of a disk of kind nvme
	ata   ataIdentity    // of a disk on the bus sata
	scsi  bool           // it may know SCSI's commands
	notes []string       // what could not be asked, and why
}

// ladder is the methods from the best to the last resort. The first ones reach also what the disk has put out of use
// or holds in reserve, the last ones only what can be addressed. A format of NVMe without secure erase is not in it.
func ladder() []method {
	return []method{
		{"nvme sanitize: block erase", false, offersSanitize(sanitizeBlockErase), nvmeSanitize(sanitizeBlockErase)},
		{"nvme sanitize: crypto erase", false, offersSanitize(sanitizeCryptoErase), nvmeSanitize(sanitizeCryptoErase)},
		{"nvme format: user data", false, offersFormat(formatUserData), nvmeFormat(formatUserData)},
		{"nvme format: crypto erase", false, offersFormat(formatCrypto), nvmeFormat(formatCrypto)},
		{"ata sanitize: block erase", false, offersATASanitize(ataBlockErase), ataSanitize("--sanitize-block-erase")},
		{"ata sanitize: crypto scramble", false, offersATASanitize(ataCryptoScramble), ataSanitize("--sanitize-crypto-scramble")},
		{"ata secure erase, enhanced", false, offersSecureErase(true), ataSecureErase(true)},
		{"ata secure erase", false, offersSecureErase(false), ataSecureErase(false)},
		{"scsi sanitize: block erase", false, offersSCSI, scsiSanitize("--block")},
		{"scsi sanitize: crypto erase", false, offersSCSI, scsiSanitize("--crypto")},
		{"discard and zero", true, offersDiscard, discardAndZero},
		{"zero", true, offersZero, zero},
		{"overwrite", true, always, overwrite},
	}
}

// abilities asks the disk.
func (m *machine) abilities(ctx context.Context, d disk) abilities {
	can := abilities{disk: d, scsi: d.Kind != "virtual" && (d.Bus == "sas" || d.Bus == "scsi")}
	var err error
	switch {
	case d.Bus == "nvme":
		can.nvme, err = m.askNVMe(ctx, d)
	case d.Bus == "sata" && d.Kind != "virtual":
		can.ata, err = m.askATA(ctx, d)
	}
	if err != nil {
		m.logf("%s: %v", d.Name, err)
		can.notes = append(can.notes, err.Error())
	}
	return can
}

func always(abilities) (bool, string) { return true, "" }

func offersDiscard(a abilities) (bool, string) { return a.disk.discards, "" }

// offersZero: discard and zero has zeroed already, where it fits.
func offersZero(a abilities) (bool, string) { return !a.disk.discards, "" }

func offersSCSI(a abilities) (bool, string) { return a.scsi, "" }

const (
	discardStep = 4 << 30   // bytes: a call can't be interrupted
	zeroStep    = 256 << 20 // a hard disk takes 1 to 2 s for it
	writeStep   = 4 << 20
)

// discardAndZero gives all blocks back to the disk, which frees a flash disk's cells, and then has it zero all of them:
// a disk is free to keep what was discarded.
func discardAndZero(ctx context.Context, e *erasure, far func(string)) error {
	err := e.with(ctx, true, func(d device) error {
		return steps(ctx, d.Size(), discardStep, far, "discarding", d.Discard)
	})
	// A disk that can't after all is zeroed all the same.
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("discard: %w", err)
	}
	return zero(ctx, e, far)
}

// zero has the disk or the kernel write zeros everywhere.
func zero(ctx context.Context, e *erasure, far func(string)) error {
	return e.with(ctx, true, func(d device) error {
		if err := steps(ctx, d.Size(), zeroStep, far, "zeroing", d.Zero); err != nil {
			return fmt.Errorf("zero: %w", err)
		}
		return d.Flush()
	})
}

// overwrite writes zeros everywhere itself.
func overwrite(ctx context.Context, e *erasure, far func(string)) error {
	zeros := aligned(writeStep)
	return e.with(ctx, true, func(d device) error {
		err := steps(ctx, d.Size(), writeStep, far, "writing", func(offset, length int64) error {
			return writeFull(d, zeros[:length], offset)
		})
		if err != nil {
			return err
		}
		return d.Flush()
	})
}

// steps does something with a whole disk, part by part, until ctx ends.
func steps(ctx context.Context, size, step int64, far func(string), what string, do func(offset, length int64) error) error {
	for offset := int64(0); offset < size; offset += step {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		far(fmt.Sprintf("%s, %d %%", what, offset*100/size))
		if err := do(offset, min(step, size-offset)); err != nil {
			return fmt.Errorf("%s: %w", at(offset), unwrapPath(err))
		}
	}
	return nil
}

const (
	pollEvery  = 2 * time.Second
	stallLimit = 30 * time.Minute // a disk that gets no further for so long is stuck
)

// await polls until a disk's own operation has ended, an error if it gets no further. look returns the hundredths done.
func await(ctx context.Context, far func(string), look func() (done bool, percent float64, err error)) error {
	last, since := -1.0, time.Now()
	for {
		done, percent, err := look()
		switch {
		case err != nil:
			return err
		case done:
			return nil
		case percent != last:
			last, since = percent, time.Now()
		case time.Since(since) > stallLimit:
			return fmt.Errorf("no progress beyond %.0f %% for %v", percent, stallLimit)
		}
		far(fmt.Sprintf("%.0f %%", percent))
		if clock.Sleep(ctx, pollEvery) != nil {
			return context.Cause(ctx)
		}
	}
}
