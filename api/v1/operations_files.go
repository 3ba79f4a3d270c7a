package v1

// Operations on files of clusters. Each is done through the SSH gateway, in the account of who asks.
var (
	ListFiles = get[FileRef, Files]("list-files", "/v1/clusters/{cluster}/files", Endpoint{
		Summary:     "List a directory of a cluster, as you see it from the head; without a path, your own",
		Description: "Through the SSH gateway, as an SFTP session of the caller's, which the next requests share for a minute.",
		Tag:         "access", Action: "enter", Errors: []int{403, 404, 409}})
	RemoveFile = del[FileRef, Nothing]("remove-file", "/v1/clusters/{cluster}/files", Endpoint{
		Summary: "Delete a file of a cluster, or an empty directory", Tag: "access", Action: "enter",
		Errors: []int{403, 404, 409}, Once: true})
	ReadFile = get[FileRef, Nothing]("read-file", "/v1/clusters/{cluster}/files/content", Endpoint{
		Summary:     "Read a file of a cluster",
		Description: "The answer is the file's bytes, or those that a Range header asks for (RFC 9110, section 14).",
		Tag:         "access", Action: "enter", Errors: []int{403, 404, 409, 416}, Bytes: true})
	WriteFile = put[WriteFileInput, Nothing]("write-file", "/v1/clusters/{cluster}/files/content", Endpoint{
		Summary: "Write a file of a cluster",
		Description: "The body is the file's bytes, as many as there are. Until all have come they are in a file beside, so that " +
			"the file is whole or not there; one that is replaced keeps its mode. A body of which nothing comes for 30 " +
			"seconds ends the request.",
		Tag: "access", Action: "enter", Errors: []int{403, 404, 409}, Bytes: true})
	MoveFile = post[MoveFileInput, Nothing]("move-file", "/v1/clusters/{cluster}/files/move", Endpoint{
		Summary: "Give a file or directory of a cluster another path", Tag: "access", Action: "enter",
		Errors: []int{403, 404, 409}, Once: true,
		Example: `{"from": "case/mesh.cgns", "to": "case/mesh-fine.cgns"}`})
	MakeDirectory = post[MakeDirectoryInput, Nothing]("make-directory", "/v1/clusters/{cluster}/files/directories", Endpoint{
		Summary: "Make a directory on a cluster", Tag: "access", Action: "enter", Errors: []int{403, 404, 409}, Once: true,
		Example: `{"path": "case/results"}`})
)
