"""What stands before the service, as nginx and HAProxy are configured."""

from attrs import frozen


@frozen
class Gate:
    """
    A front that limits each key.

    Attributes:
        rate: Requests a second that it lets through.
        rule: The directives of nginx, or the lines of HAProxy's front end.
        at_once: How many requests HAProxy sends to the service at once; 0 for any number.
    """

    program: str
    rate: float
    rule: str
    at_once: int = 0


COUNTING = """
  stick-table type string len 64 size 10k expire 10s store http_req_rate(1s)
  http-request track-sc0 req.hdr(authorization)
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt 20 }"""
GATES = {
    "no-burst": Gate("nginx", 20, "limit_req zone=ZONE;"),
    "burst": Gate("nginx", 20, "limit_req zone=ZONE burst=20 nodelay; limit_req_status 429;"),
    "delay": Gate("nginx", 20, "limit_req zone=ZONE burst=20;"),
    "counts-refused": Gate("haproxy", 20, COUNTING),
    "at-once": Gate("haproxy", 30, "", at_once=5),
}
NGINX = """
daemon off; pid {folder}/pid; error_log {folder}/error crit; worker_processes 1;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream service {{ server 127.0.0.1:{service}; keepalive 64; }}
  {servers}
}}
"""
NGINX_SERVER = """
  limit_req_zone $http_authorization zone=z{port}:64k rate={rate}r/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      {rule}
      proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection '';
    }}
  }}
"""
HAPROXY = """
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 30s
  timeout queue 500ms
"""
HAPROXY_SERVER = """
frontend f{port}
  bind 127.0.0.1:{port}{rule}
  default_backend b{port}
backend b{port}
  server service 127.0.0.1:{service}{at_once}
"""


def configured(gate, folder, service, ports):
    """Write the configuration of equal fronts at these *ports* to *folder*; return the command that runs it."""
    file = folder / "configuration"
    at_once = f" maxconn {gate.at_once}" if gate.at_once else ""
    server = NGINX_SERVER if gate.program == "nginx" else HAPROXY_SERVER
    servers = "".join(
        server.format(
            port=port, rate=gate.rate, rule=gate.rule.replace("ZONE", f"z{port}"), service=service, at_once=at_once
        )
        for port in ports
    )
    if gate.program == "nginx":
        file.write_text(NGINX.format(folder=folder, service=service, servers=servers), encoding="utf-8")
        return ("nginx", "-p", folder, "-e", folder / "error", "-c", file)
    file.write_text(HAPROXY + servers, encoding="utf-8")
    return ("haproxy", "-q", "-f", file)
