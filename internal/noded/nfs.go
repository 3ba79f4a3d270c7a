package noded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
	"muster/internal/kit/wrap"
)

// The head serves /home by NFSv4 from a user's process, nfs-ganesha: a head in a container has no kernel of its own to
// serve from. One port, no port mapper, no locks to give back after a restart.

const nfsPort = 2049

// nfsConfig is the server's configuration on a head with this address. It serves the nodes that mount /home, from ports
// that only root may use: without that, any process of any user that reaches the head could say that it is another user.
// Root of another node is no user here; the cluster's users are who their numbers say, and calls by other numbers are refused.
// The head itself may only look whether /home is served.
func nfsConfig(address string, mounts []string) string {
	clients := ""
	if len(mounts) > 0 {
		clients = `
	CLIENT { Clients = ` + strings.Join(mounts, ", ") + `; Access_Type = RW; }`
	}
	return `# Written by muster; changes are overwritten.
NFS_CORE_PARAM {
	Protocols = 4;
	NFS_Port = ` + strconv.Itoa(nfsPort) + `;
	Bind_addr = ` + address + `;
	Enable_NLM = false;
	Enable_RQUOTA = false;
	Enable_UDP = false;
	allow_set_io_flusher_fail = true; # it takes CAP_SYS_RESOURCE, without which version 6 would end
	Manage_Gids_Expiration = 10; # s that who is no user any more is still taken for one
}
NFS_KRB5 { Active_krb5 = false; }
NFSV4 {
	Minor_Versions = 0, 2;    # 0 is for the health check
	Delegations = false;
	Graceless = true;         # a restart keeps nobody waiting
	RecoveryBackend = fs;
	Only_Numeric_Owners = true;
}
EXPORT {
	Export_Id = 1;
	Path = /home;
	Pseudo = /home;
	Protocols = 4;
	Transports = TCP;
	Access_Type = None;
	PrivilegedPort = true;
	Squash = Root_Squash;
	Manage_Gids = true; # users and their groups are those of /etc/passwd and /etc/group; others are refused
	SecType = sys;` + clients + `
	CLIENT { Clients = ` + address + `; Access_Type = MDONLY_RO; } # the head's own look
	FSAL { Name = VFS; }
}
LOG {
	Default_Log_Level = WARN;
	Components { DBUS = FATAL; NFS_CB = FATAL; TIRPC = FATAL; } # asked for by none
	Format {
		date_format = none;
		time_format = none;
		EPOCH = false;
		HOSTNAME = false;
		PROGNAME = false;
		PID = false;
		THREAD_NAME = false;
		FILE_NAME = false;
		LINE_NUM = false;
		FUNCTION_NAME = false;
	}
}
`
}

// Ports of ours to ask the server from: below those that kernels take for their mounts (665 to 1023).
const (
	askFirst = 512
	askLast  = 664
)

// served says why the server at the address does not serve /home. That it listens would not be enough: without its
// export it goes on listening.
func served(ctx context.Context, address string) error {
	conn, err := dialAsRoot(ctx, net.JoinHostPort(address, strconv.Itoa(nfsPort)), 0, askFirst, askLast)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // fails on a closed connection only, which the read tells too
	}
	if _, err := conn.Write(lookUpHome()); err != nil {
		return fmt.Errorf("ask the NFS server: %w", err)
	}
	status, err := nfsStatus(conn)
	switch {
	case err != nil:
		return fmt.Errorf("ask the NFS server: %w", err)
	case status == nfsNoEntry:
		return errors.New("the NFS server does not serve /home to this node")
	case status != 0:
		return fmt.Errorf("the NFS server answers with error %d", status)
	}
	return nil
}

// Numbers of ONC RPC (RFC 5531) and NFSv4.0 (RFC 7530, sections 16 and 13).
const (
	rpcLast      = 1 << 31 // of a fragment's length: no more fragments
	rpcCall      = 0
	rpcReply     = 1
	authSys      = 1
	nfsProgram   = 100003
	nfsCompound  = 1
	opGetHandle  = 10
	opLookUp     = 15
	opPutRoot    = 24
	nfsNoEntry   = 2
	nfsQuestion  = 0x6d757374 // our call's number
	nfsReplyMost = 4096       // bytes
)

// lookUpHome is the call that asks for /home's handle, as root.
func lookUpHome() []byte {
	words := func(numbers ...uint32) (text []byte) {
		for _, n := range numbers {
			text = binary.BigEndian.AppendUint32(text, n)
		}
		return text
	}
	call := words(nfsQuestion, rpcCall, 2, nfsProgram, 4, nfsCompound)
	call = append(call, words(authSys, 5*4, 0, 0, 0, 0, 0)...) // credential: stamp, machine's name, uid, gid, groups
	call = append(call, words(0, 0)...)                        // verifier
	call = append(call, words(0, 0, 3, opPutRoot, opLookUp, uint32(len("home")))...)
	call = append(call, "home"...)
	call = append(call, words(opGetHandle)...)
	return append(words(rpcLast|uint32(len(call))), call...)
}

// nfsStatus reads the reply and returns its nfsstat4.
func nfsStatus(r io.Reader) (uint32, error) {
	var length uint32
	if err := binary.Read(r, binary.BigEndian, &length); err != nil {
		return 0, err
	}
	if length&rpcLast == 0 || length&^rpcLast > nfsReplyMost {
		return 0, errors.New("not the answer of an NFS server")
	}
	text := make([]byte, length&^rpcLast)
	if _, err := io.ReadFull(r, text); err != nil {
		return 0, err
	}
	reply := bytes.NewReader(text)
	var head struct{ Number, Kind, Refused, Verifier, VerifierLength uint32 }
	if err := binary.Read(reply, binary.BigEndian, &head); err != nil {
		return 0, errors.New("its answer is too short")
	}
	if head.Number != nfsQuestion || head.Kind != rpcReply || head.Refused != 0 || head.VerifierLength > nfsReplyMost {
		return 0, errors.New("it refuses the question")
	}
	_, _ = reply.Seek(int64(head.VerifierLength+3)&^3, io.SeekCurrent) // beyond the end the next read fails
	var result struct{ Failed, Status uint32 }
	if err := binary.Read(reply, binary.BigEndian, &result); err != nil {
		return 0, errors.New("its answer is too short")
	}
	if result.Failed != 0 {
		return 0, fmt.Errorf("it cannot take the question: RPC error %d", result.Failed)
	}
	return result.Status, nil
}

const homeRetry = 500 * time.Millisecond // between two looks for the head's server

// provideHome mounts /home on a machine, as soon as the head serves it, and returns then. Elsewhere it is there already.
func (n *node) provideHome(ctx context.Context) {
	if n.boot.Attachment == nil || n.boot.Attachment.Home == "" {
		close(n.homeThere)
		return
	}
	source := n.boot.Attachment.Home
	server, _, _ := strings.Cut(source, ":")
	mount := inTime(func() error { return n.deps.machine.mountHome(source) }) // which waits, should the head go away
	told := false
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, probeLimit)
		err := n.deps.served(limited, server)
		cancel()
		if err == nil {
			err = mount(ctx)
		}
		if err == nil {
			close(n.homeThere)
			return
		}
		if !told && ctx.Err() == nil {
			n.console.printf("/home: %v; trying on", err)
			told = true
		}
		_ = clock.Sleep(ctx, homeRetry)
	}
}

// mountNFS mounts a source like "10.77.0.2:/home". A server that goes away makes its users wait, however long it takes;
// what it has written down it has. A name that was not there is asked for again at once: what a user has just made on
// the head is found on every node.
func mountNFS(source, at string) error {
	server, _, found := strings.Cut(source, ":")
	if !found {
		return fmt.Errorf("%q is no NFS source", source)
	}
	options := "vers=4.2,proto=tcp,hard,sec=sys,lookupcache=positive,addr=" + server
	return wrap.Errorf(unix.Mount(source, at, "nfs4", unix.MS_NOSUID|unix.MS_NODEV, options), "mount %s", source)
}

// inTime makes a probe of one that may hang in the kernel, as every look at a file server that is away. The call under
// way then goes on; until it has ended there is no other.
func inTime(probe func() error) func(context.Context) error {
	var under chan error
	return func(ctx context.Context) error {
		if under == nil {
			under = make(chan error, 1)
			go func(done chan<- error) { done <- probe() }(under)
		}
		select {
		case err := <-under:
			under = nil
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
