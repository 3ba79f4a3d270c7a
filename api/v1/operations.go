package v1

import "net/http"

// longestSnapshot is that of a fabric with some ten thousand ports.
const longestSnapshot = 64 << 20

// Of examples: a public key whose private half does not exist, and a machine on a switch, as ibnetdiscover prints them.
const (
	exampleKey    = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	exampleCables = `switchguid=0x2c90200300000(2c90200300000)\n` +
		`Switch\t24 \"S-0002c90200300000\"\t# \"leaf1\" enhanced port 0 lid 2 lmc 0\n` +
		`[1]\t\"H-0002c90300500000\"[1](2c90300500001) \t# \"r1n1 mlx4_0\" lid 10 4xQDR\n` +
		`caguid=0x2c90300500000\nCa\t1 \"H-0002c90300500000\"\t# \"r1n1 mlx4_0\"\n` +
		`[1](2c90300500001) \t\"S-0002c90200300000\"[1]\t# lid 10 lmc 0 \"leaf1\" lid 2 4xQDR\n`
)

// Operations on clusters.
var (
	ListClusters = Op[ListClustersInput, List[Cluster]]{Endpoint{ID: "list-clusters", Method: http.MethodGet,
		Path:    "/v1/clusters",
		Summary: "List clusters",
		Tag:     "clusters", Action: "browse",
		Commands: []string{"list"}}}
	CreateCluster = Op[CreateClusterInput, Answer]{Endpoint{ID: "create-cluster", Method: http.MethodPost, Path: "/v1/clusters",
		Summary: "Create a cluster from a cluster file",
		Tag:     "clusters", Action: "own", Status: http.StatusAccepted, Errors: []int{404, 409, 422}, File: true,
		Unchanged: true,
		Example:   "name: cfd\nproject: aero\nnodes: 16\n",
		Commands:  []string{"create"}}}
	GetCluster = Op[ClusterRef, Cluster]{Endpoint{ID: "get-cluster", Method: http.MethodGet, Path: "/v1/clusters/{cluster}",
		Summary: "Show a cluster and its nodes",
		Tag:     "clusters", Action: "see", Errors: []int{404},
		Commands: []string{"get", "describe", "ssh", "events", "open"}}}
	ApplyCluster = Op[ApplyClusterInput, Answer]{Endpoint{ID: "apply-cluster", Method: http.MethodPut,
		Path:    "/v1/clusters/{cluster}",
		Summary: "Create a cluster from its file, or change it to match the file",
		Tag:     "clusters", Action: "own", Status: http.StatusAccepted, Errors: []int{404, 409, 422}, File: true,
		Unchanged: true,
		Example:   "name: cfd\nproject: aero\nqueues:\n  - name: cpu\n    min: 2\n    max: 16\n",
		Commands:  []string{"apply", "plan"}}}
	ScaleCluster = Op[ScaleClusterInput, Answer]{Endpoint{ID: "scale-cluster", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/scale",
		Summary: "Change the number of nodes of a queue",
		Tag:     "clusters", Action: "own", Status: http.StatusAccepted, Errors: []int{404, 409, 422}, Unchanged: true,
		Example:  `{"nodes": 5}`,
		Commands: []string{"scale"}}}
	ChangeRollout = Op[ChangeRolloutInput, Answer]{Endpoint{ID: "change-rollout", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/rollout",
		Summary: "Continue a rollout that has stopped, or roll back",
		Tag:     "clusters", Action: "own", Status: http.StatusAccepted, Errors: []int{404, 409, 422}, Unchanged: true,
		Example:  `{"action": "resume"}`,
		Commands: []string{"rollout resume", "rollout back"}}}
	PauseCluster = Op[PauseClusterInput, Answer]{Endpoint{ID: "pause-cluster", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/pause",
		Summary: "Give a cluster's machines back and keep its state",
		Tag:     "clusters", Action: "own", Status: http.StatusAccepted, Errors: []int{404, 409, 422}, Unchanged: true,
		Commands: []string{"pause"}}}
	ResumeCluster = Op[ResumeClusterInput, Answer]{Endpoint{ID: "resume-cluster", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/resume",
		Summary: "Resume a paused cluster, on machines that are free now",
		Tag:     "clusters", Action: "own", Status: http.StatusAccepted, Errors: []int{404, 409, 422}, Unchanged: true,
		Commands: []string{"resume"}}}
	ExtendCluster = Op[ExtendClusterInput, Answer]{Endpoint{ID: "extend-cluster", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/extend",
		Summary: "Move the end of a cluster's lease",
		Tag:     "clusters", Action: "own", Status: http.StatusAccepted, Errors: []int{404, 409, 422}, Unchanged: true,
		Example:  `{"for": "7d"}`,
		Commands: []string{"extend"}}}
	DeleteCluster = Op[DeleteClusterInput, Answer]{Endpoint{ID: "delete-cluster", Method: http.MethodDelete,
		Path:    "/v1/clusters/{cluster}",
		Summary: "Delete a cluster with its /home",
		Tag:     "clusters", Action: "own", Status: http.StatusAccepted, Errors: []int{404},
		Commands: []string{"delete"}}}
	GetClusterCost = Op[GetClusterCostInput, Cost]{Endpoint{ID: "get-cluster-cost", Method: http.MethodGet,
		Path:    "/v1/clusters/{cluster}/cost",
		Summary: "Show what a cluster has cost, also a deleted one",
		Tag:     "usage", Action: "see", Errors: []int{404},
		Commands: []string{"cost"}}}
	ListEvents = Op[ListEventsInput, List[Event]]{Endpoint{ID: "list-events", Method: http.MethodGet, Path: "/v1/events",
		Summary: "List or watch all events",
		Tag:     "events", Action: "browse", Errors: []int{404, 422},
		Commands: []string{"events"}}}
	ListClusterEvents = Op[ListClusterEventsInput, List[Event]]{Endpoint{ID: "list-cluster-events", Method: http.MethodGet,
		Path:    "/v1/clusters/{cluster}/events",
		Summary: "List or watch the events of a cluster",
		Tag:     "events", Action: "see", Errors: []int{404, 422},
		Commands: []string{"events", "describe"}}}
)

// Operations on ways into clusters.
var (
	Certify = Op[CertifyInput, Certificate]{Endpoint{ID: "certify", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/certificate",
		Summary: "Log in to a cluster: have an SSH key signed for a few minutes",
		Tag:     "access", Action: "enter", WayIn: true, Errors: []int{404, 409, 422},
		Example:  `{"public_key": "` + exampleKey + `"}`,
		Commands: []string{"ssh"}}}
	Tunnel = Op[TunnelInput, Nothing]{Endpoint{ID: "tunnel", Method: http.MethodGet, Path: "/v1/clusters/{cluster}/tunnel",
		Summary: "Log in to a cluster: open a connection to the SSH port of one of its nodes",
		Description: "Upgrades the connection (RFC 9110, 7.8) to " + TunnelProtocol +
			": after the answer 101 both directions carry the SSH connection's bytes.",
		Tag: "access", Action: "enter", Errors: []int{404, 409, 426},
		Commands: []string{"tunnel"}}}
	OpenTerminal = Op[TerminalInput, Nothing]{Endpoint{ID: "open-terminal", Method: http.MethodGet,
		Path:    "/v1/clusters/{cluster}/terminal",
		Summary: "Log in to a cluster: open a terminal in a browser, or show again one that it has opened",
		Description: "A WebSocket of protocol " + TerminalProtocol + ". Bytes are what is typed, 16 KiB a message at most, and " +
			"what the terminal shows. Texts are JSON. The server says {\"terminal\": ID, \"from\": N, \"kept\": N} first: from " +
			"which byte of all that it has shown, and how many were shown before; {\"ended\": WHY} last, \"\" if it ended " +
			"by itself and well; and {} each 20 seconds. The client says {\"resize\": {\"columns\": N, \"rows\": N}} and " +
			"{\"drawn\": N}, how many of the bytes that it was sent it has shown: the terminal waits 20 seconds for it when it is " +
			"128 KiB ahead. Without a client it goes on for 10 minutes. Close code 4001: another client has taken it up.",
		Tag: "access", Action: "enter", Errors: []int{404, 409, 426}}}
	OpenApp = Op[OpenAppInput, Opened]{Endpoint{ID: "open-app", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/apps/{app}/open",
		Summary: "Get an address that signs a browser in to a web app, once",
		Tag:     "access", Action: "enter", Errors: []int{404, 409}, Once: true,
		Commands: []string{"open"}}}
	GetGateway = Op[Nothing, Gateway]{Endpoint{ID: "get-gateway", Method: http.MethodGet, Path: "/v1/gateway",
		Summary: "Show the address and host keys of the SSH gateway",
		Tag:     "access", Action: "browse", Errors: []int{403},
		Commands: []string{"gateway", "ssh-config"}}}
	RotateGatewayKey = Op[RotateGatewayKeyInput, Gateway]{Endpoint{ID: "rotate-gateway-key", Method: http.MethodPost,
		Path:    "/v1/gateway/rotate",
		Summary: "Make the gateways' next host key, which clients learn before it is used",
		Tag:     "access", Action: "run", Errors: []int{403, 409, 422},
		Commands: []string{"gateway rotate"}}}
	ListSessions = Op[ListSessionsInput, List[Session]]{Endpoint{ID: "list-sessions", Method: http.MethodGet,
		Path: "/v1/sessions",
		Summary: "List sessions through the SSH gateway, newest first: all as an operator, those of your projects as their " +
			"owner, and your own",
		Tag: "access", Action: "browse", Errors: []int{403, 422},
		Commands: []string{"sessions list"}}}
	EndSession = Op[EndSessionInput, Nothing]{Endpoint{ID: "end-session", Method: http.MethodDelete,
		Path:    "/v1/sessions/{session}",
		Summary: "End a session of yours, or in a project of yours",
		Tag:     "access", Action: "govern", Errors: []int{403, 404},
		Commands: []string{"sessions end"}}}
)

// Operations on tasks.
var (
	RunTask = Op[RunTaskInput, Task]{Endpoint{ID: "run-task", Method: http.MethodPost, Path: "/v1/clusters/{cluster}/tasks",
		Summary: "Run a program on a cluster as yourself, by its scheduler",
		Description: "The program is started once, or not at all; if it is not known which, the task ends as lost. Tasks end " +
			"with their cluster.",
		Tag: "tasks", Action: "enter", Status: http.StatusAccepted, Errors: []int{403, 404, 409, 422}, Once: true,
		MaxBody: 256 << 10, Example: `{"command": ["./solver", "wing.in"], "ranks": 64}`,
		Commands: []string{"run"}}}
	ListTasks = Op[ListTasksInput, List[Task]]{Endpoint{ID: "list-tasks", Method: http.MethodGet,
		Path:    "/v1/clusters/{cluster}/tasks",
		Summary: "List a cluster's tasks, the newest last",
		Tag:     "tasks", Action: "see", Errors: []int{404},
		Commands: []string{"tasks list"}}}
	GetTask = Op[TaskRef, Task]{Endpoint{ID: "get-task", Method: http.MethodGet, Path: "/v1/tasks/{task}",
		Summary: "Show a task; only its user sees what it runs and its samples",
		Tag:     "tasks", Action: "see", Errors: []int{404},
		Commands: []string{"tasks get", "run"}}}
	GetTaskOutput = Op[GetTaskOutputInput, TaskOutput]{Endpoint{ID: "get-task-output", Method: http.MethodGet,
		Path:    "/v1/tasks/{task}/output",
		Summary: "Read the output of a task of yours, piece by piece",
		Tag:     "tasks", Action: "see", Errors: []int{403, 404},
		Commands: []string{"tasks output", "run"}}}
	CancelTask = Op[TaskRef, Task]{Endpoint{ID: "cancel-task", Method: http.MethodDelete, Path: "/v1/tasks/{task}",
		Summary: "Cancel a task of yours, or of a project that you own",
		Tag:     "tasks", Action: "own", Status: http.StatusAccepted, Errors: []int{403, 404, 409},
		Commands: []string{"tasks cancel"}}}
)

// Operations on jobs of clusters' schedulers.
var (
	ListJobs = Op[ListJobsInput, List[Job]]{Endpoint{ID: "list-jobs", Method: http.MethodGet, Path: "/v1/jobs",
		Summary: "List jobs that have ended, the last first, of clusters that are gone, too",
		Tag:     "jobs", Action: "browse", Errors: []int{404, 409},
		Commands: []string{"jobs"}}}
	ListCurrentJobs = Op[ListCurrentJobsInput, List[Job]]{Endpoint{ID: "list-current-jobs", Method: http.MethodGet,
		Path:    "/v1/jobs/current",
		Summary: "List jobs that are pending or run, as heads told some seconds ago: the first 500 of each cluster",
		Tag:     "jobs", Action: "browse", Errors: []int{404},
		Commands: []string{"jobs"}}}
	CancelJob = Op[JobRef, Task]{Endpoint{ID: "cancel-job", Method: http.MethodDelete,
		Path:    "/v1/clusters/{cluster}/jobs/{job}",
		Summary: "Cancel a job of yours: the task does it that is returned",
		Tag:     "jobs", Action: "enter", Status: http.StatusAccepted, Errors: []int{403, 404, 409},
		Commands: []string{"jobs cancel"}}}
	ChangeJob = Op[ChangeJobInput, Task]{Endpoint{ID: "change-job", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/jobs/{job}/change",
		Summary: "Hold, release or requeue a job of yours: the task does it that is returned",
		Tag:     "jobs", Action: "enter", Status: http.StatusAccepted, Errors: []int{403, 404, 409}, Example: `{"act": "hold"}`,
		Once:     true,
		Commands: []string{"jobs hold", "jobs release", "jobs requeue"}}}
	GetJobOutput = Op[JobRef, Task]{Endpoint{ID: "get-job-output", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/jobs/{job}/output",
		Summary: "Read what a job of yours has written: it is the output of the task that is returned",
		Tag:     "jobs", Action: "enter", Status: http.StatusAccepted, Errors: []int{403, 404, 409},
		Commands: []string{"jobs output"}}}
	GetEfficiency = Op[GetEfficiencyInput, Efficiencies]{Endpoint{ID: "get-efficiency", Method: http.MethodGet,
		Path:    "/v1/efficiency",
		Summary: "Show what users or projects had for their jobs, and what they used of it",
		Tag:     "jobs", Action: "browse", Errors: []int{404},
		Commands: []string{"efficiency"}}}
)

// Operations on snapshots.
var (
	CreateSnapshot = Op[CreateSnapshotInput, Snapshot]{Endpoint{ID: "create-snapshot", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/snapshots",
		Summary: "Save a cluster's /home, job queue and file",
		Tag:     "snapshots", Action: "own", Status: http.StatusAccepted, Errors: []int{404, 409, 422}, Once: true,
		Example:  `{"name": "tuned"}`,
		Commands: []string{"snapshot"}}}
	ListSnapshots = Op[Page, List[Snapshot]]{Endpoint{ID: "list-snapshots", Method: http.MethodGet, Path: "/v1/snapshots",
		Summary: "List snapshots",
		Tag:     "snapshots", Action: "browse",
		Commands: []string{"snapshots list"}}}
	GetSnapshot = Op[SnapshotRef, Snapshot]{Endpoint{ID: "get-snapshot", Method: http.MethodGet, Path: "/v1/snapshots/{snapshot}",
		Summary: "Show a snapshot",
		Tag:     "snapshots", Action: "see", Errors: []int{404},
		Commands: []string{"create", "snapshot"}}}
	DeleteSnapshot = Op[SnapshotRef, Snapshot]{Endpoint{ID: "delete-snapshot", Method: http.MethodDelete,
		Path:    "/v1/snapshots/{snapshot}",
		Summary: "Delete a snapshot",
		Tag:     "snapshots", Action: "own", Status: http.StatusAccepted, Errors: []int{404, 409},
		Commands: []string{"snapshots delete"}}}
)

// Operations on clusters that Muster did not build.
var (
	ListExternalClusters = Op[Page, List[ExternalCluster]]{Endpoint{ID: "list-external-clusters", Method: http.MethodGet,
		Path:    "/v1/external-clusters",
		Summary: "List the external clusters that your projects may use, or all as an operator",
		Tag:     "external-clusters", Action: "browse", Errors: []int{403},
		Commands: []string{"clusters list", "list"}}}
	AddExternalCluster = Op[AddExternalClusterInput, ExternalCluster]{Endpoint{ID: "add-external-cluster",
		Method: http.MethodPost, Path: "/v1/external-clusters",
		Summary: "Register a cluster that Muster did not build",
		Tag:     "external-clusters", Action: "run", Status: http.StatusCreated, Errors: []int{403, 404, 409, 422},
		Example: `{"name": "arc", "login": "arc.example.org", "host_keys": ["` + exampleKey + `"],
			"projects": [{"project": "aero", "rule": "same"}]}`,
		Commands: []string{"clusters register"}}}
	GetExternalCluster = Op[ExternalClusterRef, ExternalCluster]{Endpoint{ID: "get-external-cluster", Method: http.MethodGet,
		Path:    "/v1/external-clusters/{external_cluster}",
		Summary: "Show an external cluster and its queues",
		Tag:     "external-clusters", Action: "browse", Errors: []int{403, 404},
		Commands: []string{"clusters show"}}}
	ChangeExternalCluster = Op[ChangeExternalClusterInput, ExternalCluster]{Endpoint{ID: "change-external-cluster",
		Method: http.MethodPut, Path: "/v1/external-clusters/{external_cluster}",
		Summary: "Change an external cluster, and probe it again",
		Tag:     "external-clusters", Action: "run", Errors: []int{403, 404, 409, 422},
		Example: `{"login": "arc.example.org", "host_keys": ["` + exampleKey + `"],
			"projects": [{"project": "aero", "rule": "same"}]}`,
		Commands: []string{"clusters set"}}}
	RemoveExternalCluster = Op[ExternalClusterRef, Nothing]{Endpoint{ID: "remove-external-cluster", Method: http.MethodDelete,
		Path:    "/v1/external-clusters/{external_cluster}",
		Summary: "Forget an external cluster",
		Tag:     "external-clusters", Action: "run", Errors: []int{403, 404},
		Commands: []string{"clusters unregister"}}}
	GetExternalClusterAuthority = Op[Nothing, ExternalClusterAuthority]{Endpoint{ID: "get-external-cluster-authority",
		Method: http.MethodGet, Path: "/v1/external-cluster-authority",
		Summary: "Show the key that the sshd of external clusters must trust",
		Tag:     "external-clusters", Action: "survey", Errors: []int{403},
		Commands: []string{"clusters ca"}}}
)

// Operations on people, projects and what they may.
var (
	GetLogin = Op[Nothing, Ways]{Endpoint{ID: "get-login", Method: http.MethodGet, Path: "/v1/login",
		Summary: "Show how to log in; needs no token",
		Tag:     "access", Open: true, Errors: []int{404, 429, 503},
		Commands: []string{"login"}}}
	LogIn = Op[LogInInput, LoggedIn]{Endpoint{ID: "log-in", Method: http.MethodPost, Path: "/v1/login",
		Summary: "Log in with the provider's ID token or code; needs no token",
		Description: "Give the ID token of a device flow, or the code of a browser with its verifier, redirect and nonce. " +
			"Each is taken once.",
		Tag: "access", Open: true, Status: http.StatusCreated, Errors: []int{403, 404, 409, 429, 503}, MaxBody: 64 << 10,
		Once:     true,
		Example:  `{"id_token": "eyJhbGciOiJFUzI1NiJ9.e30.c2ln"}`,
		Commands: []string{"login"}}}
	OpenConsole = Op[Nothing, ConsoleOpened]{Endpoint{ID: "open-console", Method: http.MethodPost, Path: "/v1/console/open",
		Summary: "Get an address that signs a browser in to the console, once",
		Tag:     "access", Action: "be", WayIn: true, Once: true,
		Commands: []string{"console"}}}
	SignIn = Op[SignInInput, SignedIn]{Endpoint{ID: "sign-in", Method: http.MethodPost, Path: "/v1/console/session",
		Summary: "Sign a browser in to the console, by a cookie; needs no other token",
		Description: "The cookie is good for 12 hours at most, and no longer than the token that it was got with. Requests " +
			"with it are taken from the console's own pages only. Who comes from the provider gets a login that ends " +
			"with the cookie.",
		Tag: "access", Open: true, Errors: []int{403, 404, 409, 429, 503}, MaxBody: 16 << 10, Once: true,
		Example: `{"token": "muster_TOKEN"}`}}
	SignOut = Op[SignOutInput, Nothing]{Endpoint{ID: "sign-out", Method: http.MethodDelete, Path: "/v1/console/session",
		Summary: "Sign a browser out of the console",
		Tag:     "access", Action: "be",
		Commands: []string{"console"}}}
	ListKeys = Op[Page, List[Key]]{Endpoint{ID: "list-keys", Method: http.MethodGet, Path: "/v1/keys",
		Summary: "List your SSH keys",
		Tag:     "access", Action: "be",
		Commands: []string{"keys list"}}}
	AddKey = Op[AddKeyInput, Key]{Endpoint{ID: "add-key", Method: http.MethodPost, Path: "/v1/keys",
		Summary: "Register an SSH public key for all your clusters",
		Tag:     "access", Action: "keep", WayIn: true, Status: http.StatusCreated, Errors: []int{409, 422},
		Example:  `{"line": "` + exampleKey + ` vera@laptop"}`,
		Commands: []string{"keys add"}}}
	DeleteKey = Op[DeleteKeyInput, Nothing]{Endpoint{ID: "delete-key", Method: http.MethodDelete, Path: "/v1/keys/{fingerprint}",
		Summary: "Remove an SSH key",
		Tag:     "access", Action: "keep", Errors: []int{404},
		Commands: []string{"keys delete"}}}
	ListTokens = Op[Page, List[Token]]{Endpoint{ID: "list-tokens", Method: http.MethodGet, Path: "/v1/tokens",
		Summary: "List your tokens",
		Tag:     "access", Action: "be",
		Commands: []string{"tokens list"}}}
	AddToken = Op[AddTokenInput, Token]{Endpoint{ID: "add-token", Method: http.MethodPost, Path: "/v1/tokens",
		Summary: "Create a token with your rights, or fewer",
		Tag:     "access", Action: "keep", WayIn: true, Status: http.StatusCreated, Errors: []int{403, 404, 409, 422}, Once: true,
		Example:  `{"name": "nightly build", "project": "aero", "for": "30d"}`,
		Commands: []string{"tokens add"}}}
	AddPersonToken = Op[AddPersonTokenInput, Token]{Endpoint{ID: "add-person-token", Method: http.MethodPost,
		Path:    "/v1/people/{person}/tokens",
		Summary: "Create a token for somebody who cannot log in",
		Tag:     "people", Action: "run", WayIn: true, Status: http.StatusCreated, Errors: []int{403, 404, 409, 422}, Once: true,
		Example:  `{"name": "nightly build", "for": "30d"}`,
		Commands: []string{"tokens add"}}}
	DeleteToken = Op[DeleteTokenInput, Nothing]{Endpoint{ID: "delete-token", Method: http.MethodDelete,
		Path:    "/v1/tokens/{token}",
		Summary: "Revoke a token",
		Tag:     "access", Action: "keep", Errors: []int{403, 404},
		Commands: []string{"tokens revoke", "logout"}}}
	ListPeople = Op[Page, List[Person]]{Endpoint{ID: "list-people", Method: http.MethodGet, Path: "/v1/people",
		Summary: "List the people of the site",
		Tag:     "people", Action: "survey", Errors: []int{403},
		Commands: []string{"users list"}}}
	AddPerson = Op[AddPersonInput, Person]{Endpoint{ID: "add-person", Method: http.MethodPost, Path: "/v1/people",
		Summary: "Add a person",
		Tag:     "people", Action: "run", WayIn: true, Status: http.StatusCreated, Errors: []int{403, 409},
		Example:  `{"name": "vera", "full_name": "Vera Example"}`,
		Commands: []string{"users add"}}}
	ChangePerson = Op[ChangePersonInput, Person]{Endpoint{ID: "change-person", Method: http.MethodPut,
		Path:    "/v1/people/{person}",
		Summary: "Change a person",
		Tag:     "people", Action: "run", WayIn: true, Errors: []int{403, 404, 409},
		Example:  `{"full_name": "Vera Example"}`,
		Commands: []string{"users set", "users enable", "users disable"}}}
	ListProjects = Op[Page, List[Project]]{Endpoint{ID: "list-projects", Method: http.MethodGet, Path: "/v1/projects",
		Summary: "List your projects, or all as an operator",
		Tag:     "projects", Action: "browse", Errors: []int{403},
		Commands: []string{"projects list"}}}
	AddProject = Op[AddProjectInput, Project]{Endpoint{ID: "add-project", Method: http.MethodPost, Path: "/v1/projects",
		Summary: "Create a project",
		Tag:     "projects", Action: "run", Status: http.StatusCreated, Errors: []int{403, 404, 409},
		Example:  `{"name": "aero", "owner": "olga"}`,
		Commands: []string{"projects add"}}}
	ChangeProject = Op[ChangeProjectInput, Project]{Endpoint{ID: "change-project", Method: http.MethodPut,
		Path:    "/v1/projects/{project}",
		Summary: "Change a project",
		Tag:     "projects", Action: "govern", Errors: []int{403, 404},
		Example:  `{"recorded": true}`,
		Commands: []string{"projects set"}}}
	GetHooks = Op[ProjectRef, Hooks]{Endpoint{ID: "get-hooks", Method: http.MethodGet, Path: "/v1/projects/{project}/hooks",
		Summary: "Show the scripts that a project runs around jobs",
		Tag:     "projects", Action: "see", Errors: []int{404},
		Commands: []string{"projects hooks"}}}
	SetHooks = Op[SetHooksInput, Hooks]{Endpoint{ID: "set-hooks", Method: http.MethodPut, Path: "/v1/projects/{project}/hooks",
		Summary: "Set the scripts that a project runs around jobs",
		Tag:     "projects", Action: "lead", Errors: []int{403, 404, 422},
		Example:  `{"prolog": "echo export SCRATCH=/scratch/$USER"}`,
		Commands: []string{"projects hooks"}}}
	GetQuota = Op[GetQuotaInput, Quota]{Endpoint{ID: "get-quota", Method: http.MethodGet, Path: "/v1/projects/{project}/quota",
		Summary: "Show a project's quota and what it uses",
		Tag:     "usage", Action: "see", Errors: []int{404},
		Commands: []string{"quota"}}}
	ListMembers = Op[ListMembersInput, List[Member]]{Endpoint{ID: "list-members", Method: http.MethodGet,
		Path:    "/v1/projects/{project}/members",
		Summary: "List the members of a project",
		Tag:     "projects", Action: "see", Errors: []int{403, 404},
		Commands: []string{"projects members"}}}
	SetMember = Op[SetMemberInput, Member]{Endpoint{ID: "set-member", Method: http.MethodPut,
		Path:    "/v1/projects/{project}/members/{person}",
		Summary: "Give a person a role in a project: an owner offers it to who is not in it yet",
		Tag:     "projects", Action: "govern", Errors: []int{403, 404, 409},
		Example:  `{"role": "member"}`,
		Commands: []string{"projects grant"}}}
	RemoveMember = Op[RemoveMemberInput, Nothing]{Endpoint{ID: "remove-member", Method: http.MethodDelete,
		Path:    "/v1/projects/{project}/members/{person}",
		Summary: "Remove a person from a project: yourself, to leave it or to decline an invitation",
		Tag:     "projects", Action: "govern", Errors: []int{403, 404, 409},
		Commands: []string{"projects revoke", "projects leave"}}}
	JoinProject = Op[ProjectRef, Nothing]{Endpoint{ID: "join-project", Method: http.MethodPost,
		Path:    "/v1/projects/{project}/join",
		Summary: "Take the role that you are offered in a project",
		Tag:     "projects", Action: "keep", Status: http.StatusNoContent, Errors: []int{403, 404},
		Commands: []string{"projects join"}}}
	ListAudit = Op[ListAuditInput, List[Entry]]{Endpoint{ID: "list-audit", Method: http.MethodGet, Path: "/v1/audit",
		Summary: "List who did what, newest first: all as an operator, those of your projects as their owner, and what you " +
			"did yourself",
		Tag: "access", Action: "browse", Errors: []int{422},
		Commands: []string{"audit"}}}
)

// Operations on machines.
var (
	ListMachines = Op[ListMachinesInput, List[Machine]]{Endpoint{ID: "list-machines", Method: http.MethodGet,
		Path:    "/v1/machines",
		Summary: "List machines",
		Tag:     "machines", Action: "survey", Errors: []int{404, 409},
		Commands: []string{"machines list"}}}
	AddMachines = Op[AddMachinesInput, List[Machine]]{Endpoint{ID: "add-machines", Method: http.MethodPost, Path: "/v1/machines",
		Summary: "Enrol machines",
		Tag:     "machines", Action: "run", Status: http.StatusCreated, Errors: []int{409, 422}, Once: true,
		Example: `{"substrate": "metal", "machines": [{"name": "r1n1", "macs": ["0c:c4:7a:00:00:01"],
			"network": "rack1", "power": "redfish://10.78.0.201", "credentials": "secret:bmc"}]}`,
		Commands: []string{"machines add", "machines import"}}}
	GetMachine = Op[MachineRef, Machine]{Endpoint{ID: "get-machine", Method: http.MethodGet, Path: "/v1/machines/{machine}",
		Summary: "Show a machine",
		Tag:     "machines", Action: "survey", Errors: []int{404},
		Commands: []string{"machines get"}}}
	InspectMachine = Op[MachineRef, Machine]{Endpoint{ID: "inspect-machine", Method: http.MethodPost,
		Path:    "/v1/machines/{machine}/inspect",
		Summary: "Inspect a machine again when it is free",
		Tag:     "machines", Action: "run", Errors: []int{404, 409},
		Commands: []string{"machines inspect"}}}
	MaintainMachine = Op[MachineRef, Machine]{Endpoint{ID: "maintain-machine", Method: http.MethodPost,
		Path:    "/v1/machines/{machine}/maintain",
		Summary: "Take a machine out of service as soon as it is free",
		Tag:     "machines", Action: "run", Errors: []int{404, 409},
		Commands: []string{"machines maintain"}}}
	DrainMachine = Op[MachineRef, Machine]{Endpoint{ID: "drain-machine", Method: http.MethodPost,
		Path:    "/v1/machines/{machine}/drain",
		Summary: "Take a hypervisor out of service and move its guests to other hosts",
		Tag:     "machines", Action: "run", Errors: []int{404, 409},
		Commands: []string{"machines drain"}}}
	FreeMachine = Op[MachineRef, Machine]{Endpoint{ID: "free-machine", Method: http.MethodPost,
		Path:    "/v1/machines/{machine}/free",
		Summary: "Put a machine back into service, after an inspection",
		Tag:     "machines", Action: "run", Errors: []int{404, 409},
		Commands: []string{"machines free"}}}
	QuarantineMachine = Op[QuarantineMachineInput, Machine]{Endpoint{ID: "quarantine-machine", Method: http.MethodPost,
		Path:    "/v1/machines/{machine}/quarantine",
		Summary: "Quarantine a machine now; a node on it is ended and replaced",
		Tag:     "machines", Action: "run", Errors: []int{404},
		Example:  `{"reason": "a fan is loud"}`,
		Commands: []string{"machines quarantine"}}}
	PlaceMachine = Op[PlaceMachineInput, Machine]{Endpoint{ID: "place-machine", Method: http.MethodPut,
		Path:    "/v1/machines/{machine}/location",
		Summary: "Say where a machine stands",
		Tag:     "machines", Action: "run", Errors: []int{404, 409, 422},
		Example:  `{"location": {"rack": "r01", "unit": 12}}`,
		Commands: []string{"machines place"}}}
	RemoveMachine = Op[MachineRef, Machine]{Endpoint{ID: "remove-machine", Method: http.MethodDelete,
		Path:    "/v1/machines/{machine}",
		Summary: "Remove a machine from the inventory as soon as it is free",
		Tag:     "machines", Action: "run", Errors: []int{404},
		Commands: []string{"machines remove"}}}
	ListUnknownMachines = Op[Page, List[UnknownMachine]]{Endpoint{ID: "list-unknown-machines", Method: http.MethodGet,
		Path:    "/v1/unknown-machines",
		Summary: "List machines that asked to boot but are not enrolled",
		Tag:     "machines", Action: "survey",
		Commands: []string{"machines unknown"}}}
	ListTestResults = Op[Page, List[TestResult]]{Endpoint{ID: "list-test-results", Method: http.MethodGet,
		Path: "/v1/test-results", Summary: "List the newest test of every machine",
		Tag: "machines", Action: "survey",
		Commands: []string{"machines health"}}}
	ListMachineTestResults = Op[MachineRef, List[TestResult]]{Endpoint{ID: "list-machine-test-results", Method: http.MethodGet,
		Path:    "/v1/machines/{machine}/test-results",
		Summary: "List the tests on a machine, the newest first",
		Tag:     "machines", Action: "survey", Errors: []int{404},
		Commands: []string{"machines health"}}}
)

// Operations on networks and fabrics.
var (
	ListNetworks = Op[Page, List[Network]]{Endpoint{ID: "list-networks", Method: http.MethodGet, Path: "/v1/networks",
		Summary: "List the networks that machines boot from",
		Tag:     "machines", Action: "survey",
		Commands: []string{"networks list"}}}
	PutNetwork = Op[PutNetworkInput, Network]{Endpoint{ID: "put-network", Method: http.MethodPut, Path: "/v1/networks/{network}",
		Summary: "Add a network, or change it",
		Tag:     "machines", Action: "run", Errors: []int{422},
		Example: `{"interface": "eth1", "address": "10.78.0.1/16", "mode": "own", "first": "10.78.1.0", "last": "10.78.1.255",
			"unknown": "ignore"}`,
		Commands: []string{"networks add"}}}
	RemoveNetwork = Op[NetworkRef, Nothing]{Endpoint{ID: "remove-network", Method: http.MethodDelete,
		Path:    "/v1/networks/{network}",
		Summary: "Remove a network that no machine boots from",
		Tag:     "machines", Action: "run", Errors: []int{404, 409},
		Commands: []string{"networks remove"}}}
	ListFabrics = Op[Page, List[Fabric]]{Endpoint{ID: "list-fabrics", Method: http.MethodGet, Path: "/v1/fabrics",
		Summary: "List the InfiniBand fabrics whose partitions are managed",
		Tag:     "fabrics", Action: "survey",
		Commands: []string{"fabric list"}}}
	AddFabric = Op[AddFabricInput, Fabric]{Endpoint{ID: "add-fabric", Method: http.MethodPost, Path: "/v1/fabrics",
		Summary: "Manage the partitions of a fabric",
		Tag:     "fabrics", Action: "run", Status: http.StatusCreated, Errors: []int{409, 422},
		Example:  `{"name": "ib0", "driver": "opensm", "managers": ["0x0002c903000a0b0c"]}`,
		Commands: []string{"fabric add"}}}
	GetFabric = Op[FabricRef, Fabric]{Endpoint{ID: "get-fabric", Method: http.MethodGet, Path: "/v1/fabrics/{fabric}",
		Summary: "Show a fabric with its partitions and ports",
		Tag:     "fabrics", Action: "survey", Errors: []int{404},
		Commands: []string{"fabric get"}}}
	RemoveFabric = Op[FabricRef, Nothing]{Endpoint{ID: "remove-fabric", Method: http.MethodDelete, Path: "/v1/fabrics/{fabric}",
		Summary: "Stop managing a fabric that no cluster uses",
		Tag:     "fabrics", Action: "run", Errors: []int{404, 409},
		Commands: []string{"fabric remove"}}}
	DiffFabric = Op[FabricRef, FabricDiff]{Endpoint{ID: "diff-fabric", Method: http.MethodGet, Path: "/v1/fabrics/{fabric}/diff",
		Summary: "Show which ports differ from the intended partitions",
		Tag:     "fabrics", Action: "survey", Errors: []int{404},
		Commands: []string{"fabric diff"}}}
	ImportFabric = Op[ImportFabricInput, Fabric]{Endpoint{ID: "import-fabric", Method: http.MethodPut,
		Path:    "/v1/fabrics/{fabric}/snapshot",
		Summary: "Import a fabric's ports and cables",
		Tag:     "fabrics", Action: "run", Errors: []int{404, 409, 422}, MaxBody: longestSnapshot,
		Example:  `{"snapshot": "` + exampleCables + `"}`,
		Commands: []string{"fabric import"}}}
	PutFabricPartition = Op[PutFabricPartitionInput, Fabric]{Endpoint{ID: "put-fabric-partition", Method: http.MethodPut,
		Path:    "/v1/fabrics/{fabric}/partitions/{partition}",
		Summary: "Create a partition for the site itself, or change its members",
		Tag:     "fabrics", Action: "run", Errors: []int{404, 422},
		Example:  `{"members": [{"port": "0x0002c903000a0b0c", "membership": "full"}]}`,
		Commands: []string{"fabric infra set"}}}
	RemoveFabricPartition = Op[FabricPartitionRef, Nothing]{Endpoint{ID: "remove-fabric-partition", Method: http.MethodDelete,
		Path:    "/v1/fabrics/{fabric}/partitions/{partition}",
		Summary: "Remove one of the site's partitions",
		Tag:     "fabrics", Action: "run", Errors: []int{404},
		Commands: []string{"fabric infra remove"}}}
	AssignFabricPort = Op[AssignFabricPortInput, Fabric]{Endpoint{ID: "assign-fabric-port", Method: http.MethodPut,
		Path:    "/v1/fabrics/{fabric}/ports/{port}",
		Summary: "Assign a port to a machine",
		Tag:     "fabrics", Action: "run", Errors: []int{404, 409, 422},
		Example:  `{"machine": "r1n1"}`,
		Commands: []string{"fabric assign"}}}
	ForgetFabricPort = Op[FabricPortRef, Nothing]{Endpoint{ID: "forget-fabric-port", Method: http.MethodDelete,
		Path:    "/v1/fabrics/{fabric}/ports/{port}",
		Summary: "Forget a port whose adapter is gone",
		Tag:     "fabrics", Action: "run", Errors: []int{404, 409},
		Commands: []string{"fabric forget"}}}
	ListTopologies = Op[Page, List[Topology]]{Endpoint{ID: "list-topologies", Method: http.MethodGet, Path: "/v1/topologies",
		Summary: "List how fabrics are cabled and where machines are in them",
		Tag:     "fabrics", Action: "survey",
		Commands: []string{"fabric cables list"}}}
	PutTopology = Op[PutTopologyInput, Topology]{Endpoint{ID: "put-topology", Method: http.MethodPut,
		Path:    "/v1/topologies/{fabric}",
		Summary: "Import how a fabric is cabled, only for placement",
		Tag:     "fabrics", Action: "run", Errors: []int{409, 422}, MaxBody: longestSnapshot,
		Example:  `{"snapshot": "` + exampleCables + `"}`,
		Commands: []string{"fabric cables import"}}}
	RemoveTopology = Op[RemoveTopologyInput, Nothing]{Endpoint{ID: "remove-topology", Method: http.MethodDelete,
		Path:    "/v1/topologies/{fabric}",
		Summary: "Forget how a fabric is cabled",
		Tag:     "fabrics", Action: "run", Errors: []int{404, 409},
		Commands: []string{"fabric cables forget"}}}
)
