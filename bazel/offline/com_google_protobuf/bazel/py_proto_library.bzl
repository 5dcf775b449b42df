"""Python code of .proto files, made with the compiler of grpcio-tools."""

def _py_proto_library_impl(ctx):
    outputs = []
    for dep in ctx.attr.deps:
        info = dep[ProtoInfo]
        roots = info.transitive_proto_path.to_list()
        for source in info.direct_sources:
            path = source.path
            if path.startswith(info.proto_source_root + "/"):
                path = path[len(info.proto_source_root) + 1:]
            output = ctx.actions.declare_file("%s.py_proto/%s_pb2.py" % (ctx.label.name, path[:-len(".proto")]))
            base = output.path[:-len(path[:-len(".proto")] + "_pb2.py") - 1]
            ctx.actions.run(
                executable = ctx.executable._protoc,
                arguments = ["--proto_path=" + root for root in roots] + ["--python_out=" + base, path],
                inputs = info.transitive_sources,
                outputs = [output],
                mnemonic = "PyProto",
                use_default_shell_env = True,
            )
            outputs.append(output)
    return [
        DefaultInfo(files = depset(outputs), runfiles = ctx.runfiles(outputs)),
        PyInfo(transitive_sources = depset(outputs)),
    ]

py_proto_library = rule(
    implementation = _py_proto_library_impl,
    attrs = {
        "deps": attr.label_list(providers = [ProtoInfo]),
        "_protoc": attr.label(default = "@com_google_protobuf//:protoc", executable = True, cfg = "host"),
    },
)
