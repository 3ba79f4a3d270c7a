package inspection

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Actions of NVMe's Sanitize command, and secure erase settings of its Format NVM command (NVM Express Base
// Specification 1.4, 5.24 and 5.23). Setting 0 formats without erasing, and is never used.
const (
	sanitizeExitFailure = 1
	sanitizeBlockErase  = 2
	sanitizeCryptoErase = 4
	formatUserData      = 1
	formatCrypto        = 2
)

// nvmeLimit is for a command that answers at once, formatLimit for one that erases while it is carried out.
const (
	nvmeLimit   = time.Minute
	formatLimit = 4 * time.Hour
)

// nvmeController is what a controller says that it offers.
type nvmeController struct {
	sanitizeBlock, sanitizeCrypto bool
	format, formatCrypto          bool
}

// parseIdentifyController reads the Identify Controller data (NVM Express 1.4, figure 247).
func parseIdentifyController(data []byte) (nvmeController, error) {
	const size, oacs, sanicap, fna = 4096, 256, 328, 524
	if len(data) < size {
		return nvmeController{}, fmt.Errorf("identify data of an NVMe controller has %d bytes, expected %d", len(data), size)
	}
	sanitize := binary.LittleEndian.Uint32(data[sanicap:])
	return nvmeController{
		sanitizeCrypto: sanitize&1 != 0,
		sanitizeBlock:  sanitize&2 != 0,
		format:         binary.LittleEndian.Uint16(data[oacs:])&2 != 0,
		formatCrypto:   data[fna]&4 != 0,
	}, nil
}

// askNVMe asks the controller of a disk what it offers, and waits for a sanitize that an earlier boot has left behind:
// it goes on through a loss of power, and nothing else works meanwhile.
func (m *machine) askNVMe(ctx context.Context, d disk) (nvmeController, error) {
	data, err := m.run(ctx, nvmeLimit, "nvme", "id-ctrl", d.path, "--raw-binary")
	if err != nil {
		return nvmeController{}, fmt.Errorf("ask the controller: %w", err)
	}
	can, err := parseIdentifyController(data)
	if err != nil || !can.sanitizeBlock && !can.sanitizeCrypto {
		return can, err
	}
	if err := m.awaitSanitize(ctx, d, func(string) {}); err != nil && !errors.Is(err, errNeverSanitized) {
		return can, fmt.Errorf("an earlier sanitize: %w", errors.Join(err, m.leaveSanitizeFailure(ctx, d)))
	}
	return can, nil
}

func offersSanitize(action int) func(abilities) (bool, string) {
	return func(a abilities) (bool, string) {
		offered := a.nvme.sanitizeBlock
		if action == sanitizeCryptoErase {
			offered = a.nvme.sanitizeCrypto
		}
		return ifOffered(a.disk.Bus == "nvme", offered)
	}
}

func offersFormat(setting int) func(abilities) (bool, string) {
	return func(a abilities) (bool, string) {
		return ifOffered(a.disk.Bus == "nvme", a.nvme.format && (setting != formatCrypto || a.nvme.formatCrypto))
	}
}

// ifOffered is for methods of one kind of disks: the others need no explanation.
func ifOffered(kind, offered bool) (bool, string) {
	if kind && !offered {
		return false, "the disk does not offer it"
	}
	return kind && offered, ""
}

func nvmeSanitize(action int) func(context.Context, *erasure, func(string)) error {
	return func(ctx context.Context, e *erasure, far func(string)) error {
		// --ause allows to leave the state of failure by a command; otherwise only a sanitize that works would.
		_, err := e.machine.run(ctx, nvmeLimit, "nvme", "sanitize", e.disk.path, "--ause", "--sanact="+strconv.Itoa(action))
		if err != nil {
			return err
		}
		if err := e.machine.awaitSanitize(ctx, e.disk, far); err != nil {
			return errors.Join(err, e.machine.leaveSanitizeFailure(ctx, e.disk))
		}
		return nil
	}
}

// leaveSanitizeFailure gives a disk back to use whose sanitize failed: until then it refuses all reads and writes. It
// does nothing to a disk that is not in that state.
func (m *machine) leaveSanitizeFailure(ctx context.Context, d disk) error {
	status, err := m.sanitizeStatus(ctx, d)
	if err != nil || status.state != sanitizeFailed {
		return err
	}
	_, err = m.run(ctx, nvmeLimit, "nvme", "sanitize", d.path, "--sanact="+strconv.Itoa(sanitizeExitFailure))
	return err
}

// sanitizeStatus is the head of NVMe's Sanitize Status log (NVM Express 1.4, 5.14.1.16.2).
type sanitizeStatus struct {
	state   int
	percent float64
}

// States of a sanitize.
const (
	sanitizeNever      = 0
	sanitizeDone       = 1
	sanitizeInProgress = 2
	sanitizeFailed     = 3
	sanitizeDoneKept   = 4 // done, and blocks that were to be kept allocated are not
)

func parseSanitizeStatus(log []byte) (sanitizeStatus, error) {
	if len(log) < 4 {
		return sanitizeStatus{}, fmt.Errorf("sanitize status log has %d bytes, expected 4 or more", len(log))
	}
	return sanitizeStatus{
		state:   int(binary.LittleEndian.Uint16(log[2:]) & 7),
		percent: float64(binary.LittleEndian.Uint16(log)) * 100 / (1 << 16),
	}, nil
}

func (m *machine) sanitizeStatus(ctx context.Context, d disk) (sanitizeStatus, error) {
	const page, length = "0x81", "512"
	log, err := m.run(ctx, nvmeLimit, "nvme", "get-log", d.path, "--log-id="+page, "--log-len="+length, "--raw-binary")
	if err != nil {
		return sanitizeStatus{}, fmt.Errorf("ask how the sanitize goes: %w", err)
	}
	return parseSanitizeStatus(log)
}

var (
	errNeverSanitized = errors.New("the disk says that it was never sanitized")
	errSanitizeFailed = errors.New("the disk says that it failed")
)

func (m *machine) awaitSanitize(ctx context.Context, d disk, far func(string)) error {
	return await(ctx, far, func() (bool, float64, error) {
		status, err := m.sanitizeStatus(ctx, d)
		switch {
		case err != nil:
			return false, 0, err
		case status.state == sanitizeNever:
			return false, 0, errNeverSanitized
		case status.state == sanitizeFailed:
			return false, 0, errSanitizeFailed
		case status.state == sanitizeInProgress:
			return false, status.percent, nil
		}
		return true, 100, nil
	})
}

// nvmeFormat formats with the block size that the disk has.
func nvmeFormat(setting int) func(context.Context, *erasure, func(string)) error {
	return func(ctx context.Context, e *erasure, far func(string)) error {
		far("in one step")
		_, err := e.machine.run(ctx, formatLimit, "nvme", "format", e.disk.path, "--force",
			"--ses="+strconv.Itoa(setting), "--timeout="+strconv.FormatInt(formatLimit.Milliseconds(), 10))
		return err
	}
}
