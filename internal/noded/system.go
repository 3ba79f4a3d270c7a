package noded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"muster/internal/protocol"
)

// system brings the node's files in line with a configuration. Every method may be called again.
type system struct {
	disk     disk
	hostFile string // as the cluster's scheduler.Factory says
}

// hostKey sees to the SSH host key, once a boot, before the join, and returns its public half. A node makes a new one at
// each boot, which the site's authority certifies; a head that finds the place of its cluster's state keeps one there for
// the cluster's life, as people have seen it.
func (s system) hostKey(comment string) (public string, err error) {
	kept := s.disk.exists(protocol.StateDir)
	var private string
	if kept {
		if private, err = s.disk.read(keptKeyFile); err != nil {
			return "", err
		}
	}
	if private == "" {
		key, line, err := sshKey(comment)
		if err != nil {
			return "", err
		}
		private, public = string(key), line
		if kept {
			if err := s.disk.directory(protocol.StateOwn, 0o700, nil); err != nil {
				return "", err
			}
			if _, err := s.disk.write(keptKeyFile, key, 0o600, nil); err != nil {
				return "", err
			}
		}
	} else if public, err = publicHalf(private, comment); err != nil {
		return "", err
	}
	_, err1 := s.disk.write(hostKeyFile, []byte(private), 0o600, nil)
	_, err2 := s.disk.write(hostKeyFile+".pub", []byte(public+"\n"), 0o644, nil)
	return public, errors.Join(err1, err2)
}

// hostCertificate writes the certificate for the host key. sshd reads it at its start and at SIGHUP.
func (s system) hostCertificate(certificate string) (changed bool, err error) {
	return s.disk.write(hostCertFile, []byte(certificate+"\n"), 0o644, nil)
}

// daemons makes the directories that the daemons need and an image, or a /run in memory, does not have.
func (s system) daemons(role protocol.Role) error {
	failed := s.disk.directory("/run/sshd", 0o755, nil)
	if role == protocol.Head {
		failed = errors.Join(failed, s.disk.directory("/home/.muster", 0o711, nil),
			s.disk.directory(protocol.StateDir, 0o711, nil))
	}
	return failed
}

// apply writes all files that the configuration asks for, those of its scheduler aside, and says whether sshd has to read its
// own again. sshd listens on the one address, or on all if it is "".
func (s system) apply(config *protocol.Config, listenOn string) (sshdChanged bool, failed error) {
	put := func(name, content string) bool {
		changed, err := s.disk.write(name, []byte(content), 0o644, nil)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("write %s: %w", name, err))
		}
		return changed
	}
	put("/etc/hosts", hosts(config.Peers))
	failed = errors.Join(failed, s.command())
	put(gpusFile, gpuList(config.Peers))
	put(knownFile, knownHosts(config.SSH.HostCA))
	put(clientFile, sshClient(config.Peers))
	for name, parameters := range mpiParameters(config, s.hostFile) {
		old, err := s.disk.read(name)
		failed = errors.Join(failed, err)
		put(name, withMPI(old, parameters))
	}
	userCA := put(userCAFile, config.SSH.UserCA+"\n")
	return put(sshdFile, sshdConfig(listenOn, s.disk.exists(localesFile))) || userCA, failed
}

// command puts the program that the agent is, where users find programs: for `muster gpus`. One that an image brings stays.
func (s system) command() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	link := s.disk.path(commandFile)
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(program, link); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// users makes the accounts, and returns who has left, by number. Users who can't have one are told of; the others have theirs
// all the same. Others are accounts that the image knows from elsewhere than its files.
func (s system) users(users []protocol.User, others accountFiles) (left map[int]string, told, err error) {
	var old accountFiles
	var err1, err2, err3 error
	old.passwd, err1 = s.disk.read("/etc/passwd")
	old.group, err2 = s.disk.read("/etc/group")
	old.shadow, err3 = s.disk.read("/etc/shadow")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, nil, err
	}
	files, left, told := old.withUsers(users, others)
	_, err1 = s.disk.write("/etc/group", []byte(files.group), 0o644, nil)
	_, err2 = s.disk.write("/etc/shadow", []byte(files.shadow), 0o600, nil)
	_, err3 = s.disk.write("/etc/passwd", []byte(files.passwd), 0o644, nil)
	return left, told, errors.Join(err1, err2, err3)
}

// fresh are the users without an account, if the image asks for accounts elsewhere than in files; else none.
func (s system) fresh(users []protocol.User) ([]string, error) {
	text, err := s.disk.read("/etc/nsswitch.conf")
	if err != nil || !asksElsewhere(text) {
		return nil, err
	}
	passwd, err := s.disk.read("/etc/passwd")
	if err != nil {
		return nil, err
	}
	foreign, ours := accounts(passwd)
	var fresh []string
	for _, u := range users {
		_, is1 := foreign[u.Name]
		_, is2 := ours[u.Name]
		if !is1 && !is2 && accountName.MatchString(u.Name) {
			fresh = append(fresh, u.Name)
		}
	}
	return fresh, nil
}

// homes makes the home directories, and says for whom it could not; only the head's agent calls it. One user's trouble is not the
// others'.
func (s system) homes(users []protocol.User, cluster string) (undone []protocol.Undone) {
	passwd, err := s.disk.read("/etc/passwd")
	_, ours := accounts(passwd)
	for _, u := range users {
		switch uid, ok := ours[u.Name]; {
		case err != nil:
			undone = append(undone, protocol.Undone{User: u.Name, Text: err.Error()})
		case !ok || uid != u.UID:
			undone = append(undone, protocol.Undone{User: u.Name,
				Text: "no account: the image uses the name or number, or it is not for users"})
		default:
			if err := (homes{s.disk, cluster}).ensure(u); err != nil {
				undone = append(undone, protocol.Undone{User: u.Name, Text: err.Error()})
			}
		}
	}
	return undone
}
