package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAForgedHandleLeadsNowhere asks for files by handles that an NFS client might make up: that of /home, with another
// inode's number.
func TestAForgedHandleLeadsNowhere(t *testing.T) {
	w := open(t, site(t))
	t.Cleanup(func() { w.down(t) })
	check(t, w.EnsureShared(t.Context(), "c1", alone))
	check(t, w.EnsureShared(t.Context(), "c2", alone))
	w.write(t, "c1", "mine")
	w.write(t, "c2", "another tenant's")
	outside := filepath.Join(w.config.Dir, "muster.db")
	check(t, os.WriteFile(outside, []byte("the host's"), 0o600))
	c, err := w.shared("c1")
	check(t, err)
	home, err := os.Open(c.home())
	check(t, err)
	defer home.Close()
	of := func(path string) (s unix.Stat_t) {
		t.Helper()
		check(t, unix.Stat(path, &s))
		return s
	}
	other, err := w.shared("c2")
	check(t, err)
	var numbers []uint64
	for _, path := range []string{outside, "/", "/etc/shadow", w.config.Dir, other.home() + "/file", other.state() + "/file",
		c.state() + "/file", other.image("home")} {
		near := of(path).Ino
		for number := near - min(near, 50); number < near+50; number++ {
			numbers = append(numbers, number)
		}
	}
	for number := range uint64(5000) {
		numbers = append(numbers, number)
	}
	root, _, err := unix.NameToHandleAt(int(home.Fd()), "", unix.AT_EMPTY_PATH)
	check(t, err)
	opened := 0
	for _, kind := range []int32{root.Type(), 1, 0x81} { // as the root's is; 32 bits of number; XFS's 64
		for _, number := range numbers {
			for _, generation := range []uint32{0, binary.NativeEndian.Uint32(root.Bytes()[root.Size()-4:])} {
				text := binary.NativeEndian.AppendUint32(nil, uint32(number))
				if kind == 0x81 {
					text = binary.NativeEndian.AppendUint64(nil, number)
				}
				fd, err := unix.OpenByHandleAt(int(home.Fd()),
					unix.NewFileHandle(kind, binary.NativeEndian.AppendUint32(text, generation)),
					unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
				if err != nil {
					continue
				}
				opened++
				var s unix.Stat_t
				check(t, unix.Fstat(fd, &s))
				text = make([]byte, 64)
				n, _ := unix.Pread(fd, text, 0)
				unix.Close(fd)
				if s.Dev != of(c.home()).Dev || s.Dev == of(w.config.Dir).Dev || bytes.Contains(text[:max(n, 0)], []byte("'s")) {
					t.Fatalf("inode %d, generation %d: opened a file of device %d: %q", number, generation, s.Dev,
						text[:max(n, 0)])
				}
			}
		}
	}
	if opened == 0 {
		t.Error("not even the root of /home was opened: this test sees nothing")
	}
}

func (c shared) image(name string) string { return filepath.Join(c.dir, name+".img") }

// small opens a driver whose directory is on a file system of little room, and whose clusters may hold little.
func small(t testing.TB, site string, mib, most int64) (fixture, string) {
	t.Helper()
	dir := t.TempDir()
	image, disk := filepath.Join(dir, "disk"), filepath.Join(dir, "data")
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, mib<<20))
	command(t, "mkfs.ext4", "-q", "-F", image)
	check(t, os.Mkdir(disk, 0o755))
	command(t, "mount", "-o", "loop", image, disk)
	t.Cleanup(func() { command(t, "umount", disk) })
	d, err := New(Config{
		Dir:    filepath.Join(disk, "state"),
		Images: func(string) (string, error) { return filepath.Join(site, "image.sqfs"), nil },
		Binary: filepath.Join(site, "muster"), Sockets: filepath.Join(site, "sockets"),
		Home: most, Layers: most, State: leastVolume, Reserve: 300 << 20,
	})
	check(t, err)
	w := fixture{d}
	t.Cleanup(func() { w.down(t) })
	return w, disk
}

// TestATenantWhoFillsADiskFillsHisOwn fills /home, the nodes' roots and the head's state to the last byte.
func TestATenantWhoFillsADiskFillsHisOwn(t *testing.T) {
	w, disk := small(t, site(t), 2000, leastVolume)
	taken := func() int64 {
		var now unix.Statfs_t
		check(t, unix.Statfs(disk, &now))
		return int64(now.Blocks-now.Bfree) * now.Bsize
	}
	before := taken()
	fill := "for f in /home/fill /fill /tmp/fill /var/lib/muster/fill; do dd if=/dev/zero of=$f bs=1M; dd if=/dev/zero " +
		"of=$f.rest bs=512; echo x > $f.none; done; echo filled"
	greedy, modest := node("c1", 1, 1, fill),
		node("c2", 1, 1, "sleep 5; while :; do echo x > /home/x && echo x > /x && echo wrote; sleep 1; done")
	greedy.KeepsState, modest.KeepsState = true, true
	w.up(t, modest)
	b := w.up(t, greedy)
	read := func(b boot) string {
		text, _ := os.ReadFile(b.console())
		return string(text)
	}
	for range 600 {
		if strings.HasSuffix(strings.TrimSpace(read(b)), "filled") {
			break
		}
		time.Sleep(time.Second)
	}
	if text := read(b); !strings.HasSuffix(strings.TrimSpace(text), "filled") ||
		strings.Count(text, "No space left on device") < 4 {
		t.Fatalf("it did not come to that: %s", text)
	}
	for _, name := range []string{"c1"} {
		c, err := w.shared(name)
		check(t, err)
		for _, v := range c.volumes()[:2] {
			if size, used, err := v.usage(); err != nil || used < size*8/10 {
				t.Errorf("%s: %d of %d bytes used, %v", v.at, used, size, err)
			}
		}
	}
	// The database, whose file system this is.
	database, err := os.Create(filepath.Join(disk, "muster.db"))
	check(t, err)
	_, err = database.Write(make([]byte, 64<<20))
	check(t, errors.Join(err, database.Sync()))
	eventually(t, "the other tenant writes", func() bool { return strings.Contains(read(w.bootOf(t, modest.Ref)), "wrote") })
	if text := read(w.bootOf(t, modest.Ref)); strings.Contains(text, "No space") {
		t.Errorf("the other tenant: %s", text)
	}
	w.up(t, node("c3", 1, 1, "")) // a new one
	if _, err := w.Save(t.Context(), "c1", "s1", func(int64) error {
		return nil
	}); err != nil && !strings.Contains(err.Error(), "MiB are free") {
		t.Error(err)
	}
	check(t, w.Drop(t.Context(), "s1"))
	w.down(t)
	check(t, errors.Join(database.Close(), os.Remove(database.Name())))
	if after := taken(); after > before+1<<20 {
		t.Errorf("%d MiB of the disk were taken, %d still are", before>>20, after>>20)
	}
	w.wantNothingLeft(t)
}

// TestTenantsWhoWerePromisedMoreThanThereIsLeaveTheReserve fills /home and the nodes' roots of two clusters that may hold
// more than the disk has, by writing, and by asking for room in advance.
func TestTenantsWhoWerePromisedMoreThanThereIsLeaveTheReserve(t *testing.T) {
	w, disk := small(t, site(t), 2000, 1800<<20)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.GuardDisk(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	fill := "for f in /home/fill /fill; do dd if=/dev/zero of=$f bs=1M; done; echo filled"
	c, err := w.shared("c2")
	check(t, err)
	check(t, w.EnsureShared(t.Context(), "c2", alone))
	file, err := os.Create(filepath.Join(c.home(), "advance"))
	check(t, err)
	a, b := w.up(t, node("c1", 1, 1, fill)), w.up(t, node("c2", 1, 1, fill))
	least := int64(1 << 40)
	full := func(b boot) bool {
		text, _ := os.ReadFile(b.console())
		return strings.Contains(string(text), "filled")
	}
	for range 6000 {
		now, err := w.Disk()
		check(t, err)
		least = min(least, now.Free)
		if full(a) && full(b) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if !full(a) || !full(b) {
		now, _ := w.Disk()
		one, _ := os.ReadFile(a.console())
		two, _ := os.ReadFile(b.console())
		_ = file.Close()
		t.Fatalf("they did not come to that: %+v; %s; %s", now, one, two)
	}
	if err := unix.Fallocate(int(file.Fd()), 0, 0, 1<<30); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("1 GiB in advance: %v", err)
	}
	check(t, file.Close())
	unix.Sync()
	now, err := w.Disk()
	check(t, err)
	t.Logf("least free %d MiB, now %d MiB", least>>20, now.Free>>20)
	if least = min(least, now.Free); least < 100<<20 || !now.Short() && now.Left() > 64<<20 {
		t.Errorf("%d MiB were left of a reserve of 300; %+v", least>>20, now)
	}
	database, err := os.Create(filepath.Join(disk, "muster.db"))
	check(t, err)
	_, err = database.Write(make([]byte, 64<<20))
	check(t, errors.Join(err, database.Sync(), database.Close()))
	check(t, os.Remove(database.Name()))
	d, err := w.shared("c1")
	check(t, err)
	// A user deletes, and there is room again, for the other one too: of the larger of their files. It is chance who got how
	// much, and the other can have less than was taken from the reserve.
	one, other := c, d
	if sizeOf(t, d) > sizeOf(t, c) {
		one, other = d, c
	}
	t.Logf("the larger has %d MiB", sizeOf(t, one)>>20)
	check(t, os.Remove(filepath.Join(one.home(), "fill")))
	_, volumes, err := w.measure()
	check(t, err)
	trim(t.Context(), volumes)
	eventually(t, "there is room again", func() bool {
		return os.WriteFile(filepath.Join(other.home(), "more"), make([]byte, 4<<20), 0o600) == nil
	})
	cancel()
	<-done
}

// sizeOf is what a cluster's user has filled of /home.
func sizeOf(t *testing.T, c shared) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(c.home(), "fill"))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestHomeGrowsWhileItIsUsed(t *testing.T) {
	w := open(t, site(t))
	w.config.Home = leastVolume
	b := w.up(t, node("c1", 1, 1, "exec 3>/home/open; echo before >&3; while ! grep -q more /home/say 2>/dev/null; do sleep "+
		"0.1; done; echo after >&3; df -k /home"))
	c, err := w.shared("c1")
	check(t, err)
	before, _, err := c.homeVolume().usage()
	check(t, err)
	large := alone
	large.Home = 3 << 30
	for range 2 {
		check(t, w.EnsureShared(t.Context(), "c1", large))
	}
	after, used, err := c.homeVolume().usage()
	check(t, err)
	if before > 300<<20 || after < 2900<<20 || used > 1<<20 {
		t.Errorf("grew from %d to %d, %d used", before, after, used)
	}
	check(t, w.EnsureShared(t.Context(), "c1", alone)) // less: it stays as it is
	if now, _, err := c.homeVolume().usage(); now != after {
		t.Errorf("%d became %d, %v", after, now, err)
	}
	check(t, os.WriteFile(filepath.Join(c.home(), "say"), []byte("more\n"), 0o644))
	eventually(t, "the node sees it", func() bool {
		text, _ := os.ReadFile(b.console())
		return strings.Contains(string(text), "/home")
	})
	text, err := os.ReadFile(filepath.Join(c.home(), "open"))
	if string(text) != "before\nafter\n" {
		t.Errorf("%q, %v", text, err)
	}
	// A crash between the file and what is on it.
	check(t, os.Truncate(c.image("home"), 5<<30))
	large.Home = 5 << 30
	check(t, w.EnsureShared(t.Context(), "c1", large))
	if now, _, err := c.homeVolume().usage(); now < 4900<<20 {
		t.Errorf("%d, %v", now, err)
	}
}

// TestAHomeOnTheHostsFileSystemIsNotServed has a folder of the host's at /home: a handle could name any file of the host's.
func TestAHomeOnTheHostsFileSystemIsNotServed(t *testing.T) {
	w := open(t, site(t))
	c, err := w.shared("c1")
	check(t, err)
	check(t, os.MkdirAll(c.home(), 0o755))
	check(t, unix.Mount(t.TempDir(), c.home(), "", unix.MS_BIND, ""))
	head := node("c1", 1, 1, "")
	head.ServesHome = true
	serves := func(b boot) bool {
		text, err := os.ReadFile(b.path("config.json"))
		check(t, err)
		return strings.Contains(string(text), servingCapability)
	}
	b := w.up(t, head)
	t.Cleanup(func() { _ = unix.Unmount(c.home(), unix.MNT_DETACH) })
	if serves(b) {
		t.Error("it may open files of the host by handle")
	}
	check(t, w.Remove(t.Context(), head.Ref))
	check(t, unix.Unmount(c.home(), unix.MNT_DETACH))
	head.Boot++
	if b = w.up(t, head); !serves(b) {
		t.Error("it may not serve a /home that is a file system of its own")
	}
}

// TestFilesAreThereAgainAfterTheHostRebooted takes all mounts away, as a host does that starts.
func TestFilesAreThereAgainAfterTheHostRebooted(t *testing.T) {
	w := open(t, site(t))
	t.Cleanup(func() { w.down(t) })
	progress := func(int64) error { return nil }
	reboot := func() {
		c, err := w.shared("c1")
		check(t, err)
		check(t, unmountBelow(t.Context(), c.dir))
	}
	for _, how := range []struct {
		name string
		do   func() error
	}{
		{"its nodes come back", func() error { return w.EnsureShared(t.Context(), "c1", alone) }},
		{"it is paused and measured", func() error {
			size, err := w.Size(t.Context(), "c1")
			if size == 0 {
				t.Error("it holds nothing")
			}
			return err
		}},
		{"it is paused and saved", func() error { _, err := w.Save(t.Context(), "c1", "s1", progress); return err }},
	} {
		t.Run(how.name, func(t *testing.T) {
			check(t, w.EnsureShared(t.Context(), "c1", alone))
			w.write(t, "c1", how.name)
			reboot()
			check(t, how.do())
			if got := w.read(t, "c1"); got != how.name {
				t.Errorf("%q", got)
			}
		})
	}
	for cluster, home := range map[string]int64{"c2": 0, "c3": leastVolume, "c4": 1 << 30} {
		check(t, w.Restore(t.Context(), "s1", cluster, home, progress))
		if got := w.read(t, cluster); got != "it is paused and saved" {
			t.Errorf("restored %q", got)
		}
		c, err := w.shared(cluster)
		check(t, err)
		size, _, err := c.homeVolume().usage()
		if want := cmp.Or(home, w.homeSize()); err != nil || size > want || size < want*3/4 {
			t.Errorf("%s has a /home of %d MiB, want %d: %v", cluster, size>>20, want>>20, err)
		}
	}
	reboot()
	check(t, w.RemoveShared(t.Context(), "c1"))
	check(t, w.Drop(t.Context(), "s1"))
	w.down(t)
	w.wantNothingLeft(t)
}

// TestOneImageHasOneLoopDevice loses the mount and not the file system, as when the controller gets a new name space.
func TestOneImageHasOneLoopDevice(t *testing.T) {
	w := open(t, site(t))
	w.up(t, node("c1", 1, 1, "exec 3>/home/held; while :; do echo x >&3; sleep 0.2; done"))
	c, err := w.shared("c1")
	check(t, err)
	held := filepath.Join(c.home(), "held")
	eventually(t, "the node holds a file", func() bool { _, err := os.Stat(held); return err == nil })
	for _, v := range c.volumes() {
		check(t, unix.Unmount(v.at, unix.MNT_DETACH))
	}
	check(t, w.EnsureShared(t.Context(), "c1", alone))
	for _, v := range c.volumes() {
		behind, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
		check(t, err)
		count := 0
		for _, file := range behind {
			if text, _ := os.ReadFile(file); strings.TrimSpace(string(text)) == v.image {
				count++
			}
		}
		if count != 1 {
			t.Errorf("%d loop devices have %s", count, v.image)
		}
	}
	if _, err := os.Stat(held); err != nil {
		t.Error(err)
	}
	w.down(t)
	w.wantNothingLeft(t)
}

func TestManyClustersHaveAFileSystemEach(t *testing.T) {
	w := open(t, site(t))
	t.Cleanup(func() { w.down(t) })
	for _, name := range []string{"c1", "c2", "c3", "c4"} { // twelve, and the kernel makes eight loop devices by itself
		check(t, w.EnsureShared(t.Context(), name, alone))
		w.write(t, name, name)
	}
	var devices []uint64
	for _, name := range []string{"c1", "c2", "c3", "c4"} {
		c, err := w.shared(name)
		check(t, err)
		for _, v := range c.volumes() {
			info, err := os.Stat(v.at)
			check(t, err)
			devices = append(devices, info.Sys().(*syscall.Stat_t).Dev)
		}
		if got := w.read(t, name); got != name {
			t.Errorf("%q", got)
		}
	}
	slices.Sort(devices)
	if got := len(slices.Compact(devices)); got != 12 {
		t.Errorf("%d file systems", got)
	}
	w.down(t)
	w.wantNothingLeft(t)
}
