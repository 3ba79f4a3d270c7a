package local

// The calls of the kernel that a node may make, by purpose. What is in no list is refused. The names are those of the
// kernel's tables (arch/*/entry/syscalls); one that the architecture, the kernel or libseccomp does not know is passed over.

// callGroup is calls that serve one purpose. Names are parted by white space.
type callGroup struct {
	name  string
	why   string
	calls string
}

// everyNodesCalls are allowed with any arguments: what they may do is decided by the kernel as for any user.
func everyNodesCalls() []callGroup {
	return []callGroup{
		{"memory", "allocation, mapping, locking and protection of a process's own pages", `
			brk mmap munmap mremap mprotect madvise mincore msync remap_file_pages mseal map_shadow_stack cachestat
			mlock mlock2 mlockall munlock munlockall membarrier
			memfd_create memfd_secret pkey_alloc pkey_free pkey_mprotect process_madvise process_mrelease`},
		{"NUMA", "placement of memory and threads, as MPI and OpenMP do it", `
			mbind set_mempolicy get_mempolicy set_mempolicy_home_node migrate_pages move_pages getcpu
			sched_setaffinity sched_getaffinity`},
		{"files", "opening, reading, writing, names and attributes", `
			open openat openat2 creat close close_range read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2
			lseek readahead fadvise64 fallocate truncate ftruncate sendfile copy_file_range splice tee vmsplice
			fsync fdatasync sync syncfs sync_file_range dup dup2 dup3 fcntl flock
			stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2
			chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat umask utime utimes utimensat futimesat
			link linkat symlink symlinkat readlink readlinkat unlink unlinkat rename renameat renameat2
			mkdir mkdirat rmdir mknod mknodat getdents getdents64 getcwd chdir fchdir chroot
			setxattr lsetxattr fsetxattr setxattrat getxattr lgetxattr fgetxattr getxattrat
			listxattr llistxattr flistxattr listxattrat removexattr lremovexattr fremovexattr removexattrat
			file_getattr file_setattr inotify_init inotify_init1 inotify_add_watch inotify_rm_watch`},
		{"waiting", "polling, events and asynchronous I/O of the older kind", `
			poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
			eventfd eventfd2 signalfd signalfd4 io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents
			futex futex_waitv futex_wait futex_wake futex_requeue set_robust_list get_robust_list`},
		{"processes", "starting and ending programs, groups, sessions, priorities, limits", `
			fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill pidfd_open pidfd_send_signal pidfd_getfd
			getpid getppid gettid getpgid getpgrp setpgid getsid setsid set_tid_address
			getpriority setpriority sched_yield sched_setparam sched_getparam sched_setscheduler sched_getscheduler
			sched_setattr sched_getattr sched_get_priority_max sched_get_priority_min sched_rr_get_interval ioprio_set ioprio_get
			getrlimit setrlimit prlimit64 getrusage times sysinfo uname prctl arch_prctl set_thread_area get_thread_area
			rseq rseq_slice_yield restart_syscall`},
		{"signals", "", `
			rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend
			sigaltstack pause`},
		{"identity", "users, groups and capabilities; nobody gets more than the node has", `
			getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid setresgid
			setgroups setfsuid setfsgid capget capset`},
		{"time", "reading clocks, timers; a node cannot set the host's clock", `
			time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer setitimer
			timer_create timer_settime timer_gettime timer_getoverrun timer_delete
			timerfd_create timerfd_settime timerfd_gettime adjtimex clock_adjtime`},
		{"messages", "pipes, queues, semaphores and shared memory within the node", `
			pipe pipe2 shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
			mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr`},
		{"connections", "what is done with a socket; which sockets there are, see the conditions", `
			connect accept accept4 bind listen shutdown getsockname getpeername setsockopt getsockopt
			sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg`},
		{"own processes", "debuggers, strace, Open MPI's copies between ranks; the kernel checks that they are one's own", `
			ptrace process_vm_readv process_vm_writev`},
		{"confinement", "with which a program gives up rights", `
			seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self lsm_get_self_attr lsm_list_modules`},
		{"randomness", "", `getrandom`},
	}
}

// Who may make which calls beside those of every node.
const (
	forHome           = "heads that serve /home"
	forPerf           = "perf"
	forUserNamespaces = "user_namespaces"
	forIOUring        = "io_uring"
)

// someNodesCalls are for those who are named: by the node's role, or because the site file says so.
func someNodesCalls() []callGroup {
	return []callGroup{
		{forHome, "an NFS server is asked for files by handle, and its agent encloses it", `
			open_by_handle_at name_to_handle_at mount umount2 pivot_root unshare setns open_tree move_mount mount_setattr`},
		{forPerf, "hardware counters: perf, PAPI, LIKWID, VTune", `perf_event_open`},
		{forUserNamespaces, "containers without root: Apptainer, Podman, bubblewrap", `
			clone clone3 unshare setns mount umount2 pivot_root sethostname setdomainname
			open_tree open_tree_attr move_mount mount_setattr fsopen fsconfig fsmount fspick`},
		{forIOUring, "asynchronous I/O of the newer kind: fio, databases", `io_uring_setup io_uring_enter io_uring_register`},
	}
}
