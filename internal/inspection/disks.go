package inspection

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
	"time"

	"muster/internal/inventory"
)

// smartLimit is how long a disk may take to tell its health.
const smartLimit = 20 * time.Second

// disk is a disk of the machine.
type disk struct {
	inventory.Disk
	path       string // of the block device
	bytes      int64
	readOnly   bool
	remote     bool   // on a storage network: not this machine's own
	controller string // disks of one are erased one after the other: a sanitize may stop all of them
	discards   bool
}

// disks lists the machine's disks by name: no memory, no loops and volumes on top of disks, no drives whose medium a
// person puts in, and none without a medium.
func (m *machine) disks(ctx context.Context) []disk {
	var disks []disk
	for _, name := range m.Names("sys/block") {
		if d, ok := m.disk(name); ok {
			disks = append(disks, d)
		}
	}
	var asking sync.WaitGroup
	for i := range disks {
		asking.Go(func() { m.askHealth(ctx, &disks[i]) })
	}
	asking.Wait()
	return disks
}

// disk reads a block device of sysfs; false if it is no disk in the sense of disks.
func (m *machine) disk(name string) (disk, bool) {
	unwanted := regexp.MustCompile(`^(loop|ram|zram|dm-|md|sr|fd|nbd|rbd|drbd|zd)\d|^mmcblk\d+(boot\d|rpmb)|^nvme\d+c\d+n`)
	dir := "sys/block/" + name
	sectors := m.Number(0, dir, "size") // of 512 bytes, whatever the disk's own are
	if unwanted.MatchString(name) || sectors <= 0 || sectors > math.MaxInt64/512 {
		return disk{}, false
	}
	where := m.Real(dir)
	bus := busOf(name, where)
	// An SATA disk in a bay for hot plugging calls itself removable; a memory stick and a BMC's virtual medium do so too.
	if m.Number(0, dir, "removable") != 0 && bus != "sata" && bus != "sas" {
		return disk{}, false
	}
	d := disk{
		Disk: inventory.Disk{
			Name:    name,
			Model:   strings.Join(strings.Fields(m.Text(dir, "device/model")), " "),
			Serial:  m.serial(dir),
			SizeGB:  int(math.Round(float64(sectors*512) / 1e9)),
			Bus:     bus,
			Healthy: true,
		},
		path:       m.Path("dev", strings.ReplaceAll(name, "!", "/")), // as sysfs spells it
		bytes:      sectors * 512,
		readOnly:   m.Number(0, dir, "ro") != 0,
		remote:     bus == "fc" || bus == "iscsi" || bus == "nvme-of",
		controller: controllerOf(name, where),
		discards:   m.Number(0, dir, "queue/discard_max_bytes") > 0,
	}
	if vendor := m.Text(dir, "device/vendor"); vendor != "" && vendor != "ATA" && !strings.HasPrefix(vendor, "0x") {
		d.Model = strings.TrimSpace(vendor + " " + d.Model)
	}
	if transport := m.Text(dir, "device/transport"); bus == "nvme" && transport != "" && transport != "pcie" {
		d.Bus, d.remote = "nvme-of", true
	}
	switch {
	case bus == "virtio", emulated(d.Model) && bus != "nvme":
		d.Kind = "virtual"
	case bus == "nvme":
		d.Kind = "nvme"
	case m.Number(0, dir, "queue/rotational") != 0:
		d.Kind = "hdd"
	default:
		d.Kind = "ssd"
	}
	return d, true
}

func emulated(model string) bool {
	for _, maker := range []string{"QEMU", "VMware", "VBOX", "Msft", "Virtual disk"} {
		if strings.Contains(model, maker) {
			return true
		}
	}
	return false
}

// serial is where drivers put it: beside the device, the disk, or in SCSI's page 0x80 after a head of 4 bytes (SPC-4, 7.8.15).
func (m *machine) serial(dir string) string {
	for _, file := range []string{"device/serial", "serial"} {
		if text := m.Text(dir, file); text != "" {
			return text
		}
	}
	if page := m.Raw(dir, "device/vpd_pg80"); len(page) > 4 {
		return strings.ToValidUTF8(strings.Trim(string(page[4:]), " \x00\n"), "?")
	}
	return ""
}

// busOf says from the disk's place in sysfs how it is connected.
func busOf(name, where string) string {
	for _, b := range []struct{ mark, bus string }{
		{"/session", "iscsi"}, {"/rport-", "fc"}, {"/fc_host", "fc"}, {"/usb", "usb"}, {"/ata", "sata"},
		{"/end_device-", "sas"}, {"/mmc_host", "mmc"}, {"/host", "scsi"}, {"/virtio", "virtio"},
	} {
		if strings.Contains(where, b.mark) {
			return b.bus
		}
	}
	switch {
	case strings.HasPrefix(name, "nvme"):
		return "nvme"
	case strings.HasPrefix(name, "vd"), strings.HasPrefix(name, "xvd"):
		return "virtio"
	}
	return ""
}

// controllerOf is the part of a disk's path that it shares with the other disks of the same NVMe subsystem or
// controller; other disks have one of their own.
func controllerOf(name, where string) string {
	if strings.HasPrefix(name, "nvme") {
		if at := strings.LastIndexByte(where, '/'); at > 0 {
			return where[:at]
		}
	}
	return name
}

// askHealth has the disk tell whether it is well. What says nothing is taken to be: the disks check reads it anyway.
func (m *machine) askHealth(ctx context.Context, d *disk) {
	if d.Bus == "virtio" {
		return
	}
	out, err := m.run(ctx, smartLimit, "smartctl", "--json", "--info", "--health", "--attributes", "--log=error", d.path)
	s, parsed := parseSMART(out) // its exit status says what the JSON says too
	if parsed != nil {
		d.Health = "SMART can't be read"
		if err != nil {
			m.logf("%s: smartctl: %v", d.Name, err)
		}
		return
	}
	d.Healthy, d.Health = s.verdict()
	if d.Serial == "" {
		d.Serial = s.Serial
	}
	if d.Model == "" {
		d.Model = s.Model
	}
}

// smart is what counts of smartctl --json, for all kinds of disks.
type smart struct {
	Model  string `json:"model_name"`
	Serial string `json:"serial_number"`
	Status *struct {
		Passed bool `json:"passed"`
	} `json:"smart_status"`
	NVMe *struct {
		CriticalWarning int   `json:"critical_warning"`
		PercentageUsed  int   `json:"percentage_used"`
		MediaErrors     int64 `json:"media_errors"`
	} `json:"nvme_smart_health_information_log"`
	Attributes struct {
		Table []struct {
			ID  int `json:"id"`
			Raw struct {
				Value int64 `json:"value"`
			} `json:"raw"`
		} `json:"table"`
	} `json:"ata_smart_attributes"`
	Endurance *struct {
		Percent int `json:"current_percent"`
	} `json:"endurance_used"`
	GrownDefects int64 `json:"scsi_grown_defect_list"`
}

func parseSMART(text []byte) (smart, error) {
	var s smart
	if err := json.Unmarshal(text, &s); err != nil {
		return smart{}, fmt.Errorf("smartctl: %w", err)
	}
	return s, nil
}

// verdict is the disk's own judgement, with the numbers that explain it.
func (s smart) verdict() (healthy bool, words string) {
	if s.Status == nil && s.NVMe == nil {
		return true, "no SMART"
	}
	healthy = s.Status == nil || s.Status.Passed
	var notes []string
	note := func(n int64, what string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%d %s", n, what))
		}
	}
	if s.NVMe != nil {
		const temperature = 1 << 1 // passes by itself (NVM Express 1.4, figure 194); smartctl's verdict counts it
		healthy = s.NVMe.CriticalWarning&^temperature == 0
		if !healthy {
			notes = append(notes, fmt.Sprintf("critical warning 0x%02x", s.NVMe.CriticalWarning))
		}
		note(int64(s.NVMe.PercentageUsed), "% worn")
		note(s.NVMe.MediaErrors, "media errors")
	} else if s.Endurance != nil {
		note(int64(s.Endurance.Percent), "% worn")
	}
	for _, a := range s.Attributes.Table {
		switch a.ID {
		case 5:
			note(a.Raw.Value, "reallocated sectors")
		case 197:
			note(a.Raw.Value, "pending sectors")
		case 198:
			note(a.Raw.Value, "uncorrectable sectors")
		}
	}
	note(s.GrownDefects, "grown defects")
	words = "SMART passed"
	if !healthy {
		words = "SMART failed"
	}
	return healthy, strings.Join(append([]string{words}, notes...), ", ")
}
