//! Paths of requests.

use hyper::Method;
use tanto_protocol::{ClientRequest, VERSION, is_client_name};

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Route {
    Join,
    /// A request that the coordinator answers, by name.
    Relay(&'static str),
    Metrics,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RouteError {
    NotFound,
    /// Only this method.
    Method(&'static str),
}

impl Route {
    /// The build and the route of a request.
    pub(super) fn of<'a>(method: &Method, path: &'a str) -> Result<(&'a str, Route), RouteError> {
        let mut parts = path.strip_prefix('/').ok_or(RouteError::NotFound)?.splitn(3, '/');
        let (Some(version), Some(build), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(RouteError::NotFound);
        };
        if version.strip_prefix('v') != Some(VERSION.to_string().as_str()) || !is_client_name(build) {
            return Err(RouteError::NotFound);
        }
        let (only, route) = match rest {
            "join" => ("POST", Route::Join),
            "metrics" => ("GET", Route::Metrics),
            name => {
                let mut names = ClientRequest::NAMES.into_iter();
                ("POST", Route::Relay(names.find(|known| *known == name).ok_or(RouteError::NotFound)?))
            }
        };
        if method.as_str() == only { Ok((build, route)) } else { Err(RouteError::Method(only)) }
    }

    /// For metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Route::Join => "join",
            Route::Relay(name) => name,
            Route::Metrics => "metrics",
        }
    }
}

/// Parses any method and path, for fuzzing.
pub fn fuzz_route(method: &[u8], path: &str) {
    if let Ok(method) = Method::from_bytes(method)
        && let Ok((build, _)) = Route::of(&method, path)
    {
        assert!(path.starts_with(&format!("/v{VERSION}/{build}/")));
    }
}
