# What the package is built with.

PKG_OPTIONS?=	colour
