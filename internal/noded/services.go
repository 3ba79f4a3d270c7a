package noded

import (
	"context"
	"fmt"
	"io/fs"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// The daemons of every node, and of heads that serve /home.
const (
	sshd    = "sshd"
	ganesha = "ganesha"
)

// services are the daemons of a node in order of start. They start side by side; only who needs another waits for it.
func (n *node) services(config *protocol.Config) ([]service, error) {
	list := []service{{name: sshd, command: Command{Argv: []string{"/usr/sbin/sshd", "-D", "-e", "-f", sshdFile}},
		// our probe
		noise: []string{"Connection closed by " + n.sshAddress(config.Self), "kex_exchange_identification: Connection closed"}}}
	for _, d := range n.driver.Daemons(config) {
		account, err := nodeFiles{n.deps.disk}.account(d.User)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		list = append(list, service{
			name: d.Name, command: Command{Argv: d.Argv, Account: account}, wait: d.Wait, grace: d.Grace, noise: d.Noise,
		})
	}
	return list, nil
}

// lend is what the scheduler's driver may use of the node.
func (n *node) lend() scheduler.Host {
	return scheduler.Host{
		Files: nodeFiles{n.deps.disk}, Run: n.deps.processes.Run, Dial: n.deps.dial, Listening: n.deps.listening,
		Running: func(daemon string) bool { return n.supervisor.running(daemon) },
		Printf:  n.console.printf,
		Go:      n.tasks.Go,
		Home: func(ctx context.Context) error {
			select {
			case <-n.homeThere:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		Accepted: func(ctx context.Context) error { return n.tester.cleared(ctx) },
		GPUs:     n.gpus,
		Whole:    n.boot.OwnKernel(),
	}
}

// nodeFiles are the node's as drivers see them: owners by their names.
type nodeFiles struct{ disk disk }

func (f nodeFiles) Path(name string) string          { return f.disk.path(name) }
func (f nodeFiles) Read(name string) (string, error) { return f.disk.read(name) }
func (f nodeFiles) Exists(name string) bool          { return f.disk.exists(name) }

func (f nodeFiles) Write(name string, content []byte, mode fs.FileMode, owner string) (changed bool, err error) {
	account, err := f.account(owner)
	if err != nil {
		return false, err
	}
	return f.disk.write(name, content, mode, account)
}

func (f nodeFiles) Directory(name string, mode fs.FileMode, owner string) error {
	account, err := f.account(owner)
	if err != nil {
		return err
	}
	return f.disk.directory(name, mode, account)
}

// account is an account of the image; nil of "".
func (f nodeFiles) account(name string) (*Account, error) {
	if name == "" {
		return nil, nil
	}
	passwd, err := f.disk.read("/etc/passwd")
	if err != nil {
		return nil, err
	}
	return account(passwd, name)
}

// validate refuses a configuration that no node could follow.
func validate(config *protocol.Config) error {
	switch {
	case scheduler.Head(config).Address == "":
		return fmt.Errorf("configuration %d has no head", config.Revision)
	case config.Self.Role != protocol.Head && config.Self.Role != protocol.Compute:
		return fmt.Errorf("configuration %d: no such role: %q", config.Revision, config.Self.Role)
	}
	return nil
}
