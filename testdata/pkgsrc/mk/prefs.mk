# What the user may set, and what is set otherwise.

.if !defined(TEST_PREFS_MK)
TEST_PREFS_MK=	defined

MAKECONF?=	/etc/mk.conf
.-include "${MAKECONF}"

TOPDIR:=	${.PARSEDIR:tA:H}
.if !defined(OPSYS)
OPSYS!=		uname -s
MAKEFLAGS+=	OPSYS=${OPSYS:Q}
.endif
LOCALBASE?=	/usr/pkg
PKG_DBDIR?=	${LOCALBASE}/pkgdb
PACKAGES?=	${TOPDIR}/packages
DISTDIR?=	${TOPDIR}/distfiles
PKG_SUFX?=	.tgz
PYTHON_VERSIONS?=	312 311
HOG_MB?=	64
FLOOD_MB?=	20
FETCH_SITE?=	http://127.0.0.1:1/
FETCH_CMD?=	${TOPDIR}/tools/fetch
OUTSIDE?=	/etc/written-by-a-package
PKG_ADD?=	${TOPDIR}/tools/pkg_add
PKG_DELETE?=	${TOPDIR}/tools/pkg_delete
PKG_INFO?=	${TOPDIR}/tools/pkg_info
.endif
