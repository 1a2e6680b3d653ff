package server

import (
	"episodes.dev/runner/internal/files"
)

func stat(s *Server, _ call, request files.StatRequest) (any, [][]byte, error) {
	found, err := s.files.Stat(request)
	return found, nil, err
}

func readFile(s *Server, _ call, request files.ReadRequest) (any, [][]byte, error) {
	result, data, err := s.files.Read(request)
	return result, [][]byte{data}, err
}

func listDirectory(s *Server, _ call, request files.ListRequest) (any, [][]byte, error) {
	result, names, err := s.files.List(request)
	return result, [][]byte{names}, err
}

func writeFile(s *Server, c call, request files.WriteRequest) (any, [][]byte, error) {
	written, err := s.files.Write(request, c.payload)
	return written, nil, err
}

type uploadRequest struct {
	Upload      string `json:"upload"`
	OffsetBytes int64  `json:"offsetBytes"`
}

type openUploadRequest struct {
	files.WriteRequest
	Upload string `json:"upload"`
}

func openUpload(s *Server, c call, request openUploadRequest) (any, [][]byte, error) {
	return nothing{}, nil, s.files.OpenUpload(request.Upload, c.client, request.WriteRequest)
}

func writeUpload(s *Server, c call, request uploadRequest) (any, [][]byte, error) {
	return nothing{}, nil, s.files.WriteUpload(request.Upload, request.OffsetBytes, c.payload)
}

func commitUpload(s *Server, _ call, request uploadRequest) (any, [][]byte, error) {
	written, err := s.files.CommitUpload(request.Upload)
	return written, nil, err
}

func abortUpload(s *Server, _ call, request uploadRequest) (any, [][]byte, error) {
	s.files.AbortUpload(request.Upload)
	return nothing{}, nil, nil
}

type removeResult struct {
	Existed bool `json:"existed"`
}

func removeFile(s *Server, _ call, request files.RemoveRequest) (any, [][]byte, error) {
	existed, err := s.files.Remove(request)
	return removeResult{Existed: existed}, nil, err
}

func makeDirectory(s *Server, _ call, request files.MakeRequest) (any, [][]byte, error) {
	return nothing{}, nil, s.files.MakeDirectory(request)
}

type openArchiveRequest struct {
	files.Target
	Upload string `json:"upload"`
}

func openArchive(s *Server, c call, request openArchiveRequest) (any, [][]byte, error) {
	return nothing{}, nil, s.files.OpenArchive(request.Upload, c.client, request.Target)
}

type sealRequest struct {
	files.Packed
	Upload string `json:"upload"`
}

func sealUpload(s *Server, _ call, request sealRequest) (any, [][]byte, error) {
	return nothing{}, nil, s.files.SealUpload(request.Upload, request.Packed)
}

type unpackRequest struct {
	files.UnpackRequest
	Upload string `json:"upload"`
}

func unpack(s *Server, _ call, request unpackRequest) (any, [][]byte, error) {
	unpacked, err := s.files.Unpack(request.Upload, request.UnpackRequest)
	return unpacked, nil, err
}

type packRequest struct {
	Pack        string `json:"pack"`
	OffsetBytes int64  `json:"offsetBytes"`
}

type openPackRequest struct {
	files.PackRequest
	Pack string `json:"pack"`
}

func openPack(s *Server, c call, request openPackRequest) (any, [][]byte, error) {
	return nothing{}, nil, s.files.OpenPack(request.Pack, c.client, request.PackRequest)
}

type readPackResult struct {
	Packed *files.Packed `json:"packed,omitempty"` // with the last piece
}

func readPack(s *Server, _ call, request packRequest) (any, [][]byte, error) {
	data, packed, err := s.files.ReadPack(request.Pack, request.OffsetBytes)
	return readPackResult{Packed: packed}, [][]byte{data}, err
}

func closePack(s *Server, _ call, request packRequest) (any, [][]byte, error) {
	s.files.ClosePack(request.Pack)
	return nothing{}, nil, nil
}
